//! Builds the guests' images: a nested cargo run in the guests' own workspace. Included, by path,
//! by the build script that embeds the images and by `cargo xtask guest`, so that both build the
//! same.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The images, each a binary crate of this folder.
pub const NAMES: [&str; 5] = ["benchmark", "workload", "uintr", "overtake", "hypervisor"];
/// The one that has another built in: the guest that it runs if it is given none.
const OUTER: &str = "hypervisor";
const BUILT_IN: &str = "benchmark";

/// The one target whose `core` every installation has: the runtime needs no other.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Settings of the outer cargo run that must not reach the inner one.
const FOREIGN: [&str; 8] = [
    "RUSTFLAGS",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_TARGET",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "CARGO_INCREMENTAL",
    "CLIPPY_ARGS",
];

/// Builds all images below `target`; their paths, in the order of [`NAMES`].
///
/// The flags are given in the environment, which replaces what configuration files of the user say
/// (another linker would not know the linker script), and path prefixes are mapped away, so that
/// the same source gives the same bytes in every checkout.
pub fn build(cargo: &str, guest: &Path, target: &Path) -> Result<Vec<PathBuf>, String> {
    let root = guest.parent().ok_or("the folder of the guests has no parent")?;
    let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME")).unwrap_or_default();
    let flags = [
        "-Crelocation-model=static".to_owned(),
        "-Cforce-unwind-tables=no".to_owned(),
        format!("--remap-path-prefix={}=.", root.display()),
        format!("--remap-path-prefix={home}=~"),
    ];
    let image = |name: &str| target.join(TARGET).join("release").join(name);
    let (outer, inner): (Vec<&str>, Vec<&str>) = NAMES.iter().partition(|name| **name == OUTER);
    for names in [inner, outer] {
        let mut command = Command::new(cargo);
        command.current_dir(guest).args(["build", "--quiet", "--release", "--locked"]);
        command.args(["--target", TARGET, "--target-dir"]).arg(target);
        FOREIGN.iter().for_each(|name| {
            command.env_remove(name);
        });
        command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
        command.env("GUEST_PAYLOAD", image(BUILT_IN));
        for name in names {
            command.arg("--bin").arg(name);
        }
        let status = command.status().map_err(|error| format!("cannot start {cargo}: {error}"))?;
        if !status.success() {
            return Err(format!("building the images in {} failed: {status}", guest.display()));
        }
    }
    Ok(NAMES.iter().map(|name| image(name)).collect())
}

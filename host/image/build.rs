//! Builds the guests and tells the library where they are.

#[path = "../../guest/images.rs"]
mod images;

use std::path::Path;

fn main() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().map_err(|error| format!("{}: {error}", root.display()))?;
    let guest = root.join("guest");
    let files = ["Cargo.toml", "Cargo.lock", "images.rs", "link.rs", "runtime"];
    for folder in files.into_iter().chain(images::NAMES) {
        println!("cargo::rerun-if-changed={}", guest.join(folder).display());
    }
    println!("cargo::rerun-if-changed={}", root.join("arch/src").display());
    println!("cargo::rerun-if-changed={}", root.join("arch/Cargo.toml").display());
    let cargo = std::env::var("CARGO").map_err(|_| "no CARGO: build with cargo")?;
    // TARGET/PROFILE/build/PACKAGE/out: all profiles share one build of the guests.
    let out = std::env::var("OUT_DIR").map_err(|_| "no OUT_DIR: build with cargo")?;
    let target = Path::new(&out).ancestors().nth(4).ok_or("OUT_DIR is not in a target folder")?;
    let paths = images::build(&cargo, &guest, &target.join("guest"))?;
    for (name, path) in images::NAMES.iter().zip(paths) {
        println!("cargo::rustc-env=IMAGE_{}={}", name.to_uppercase(), path.display());
    }
    Ok(())
}

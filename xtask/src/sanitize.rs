//! `cargo xtask sanitize`: the tests of the crates that may say `unsafe`, and of what drives the
//! translated code, under AddressSanitizer and LeakSanitizer.

use crate::cargo::cargo;
use anyhow::{Result, ensure};
use std::path::Path;

/// Those of `unsafe_code = "allow"` that run in a process, and the machine, whose translated code
/// writes into memory by addresses that it computes.
const CRATES: [&str; 4] =
    ["avicenna-native", "avicenna-bench", "avicenna-differential-vector", "avicenna-board"];
/// Sanitizers have to be told for which target.
const HOST: &str = "x86_64-unknown-linux-gnu";

pub fn run(root: &Path, names: &[&str]) -> Result<()> {
    let names = if names.is_empty() { &CRATES[..] } else { names };
    let unknown: Vec<&&str> = names.iter().filter(|name| !CRATES.contains(name)).collect();
    ensure!(unknown.is_empty(), "not {unknown:?}, but of {}", CRATES.join(", "));
    let mut test = cargo();
    test.args(["test", "--locked", "--tests", "--target", HOST, "--no-fail-fast"]);
    names.iter().for_each(|name| {
        test.args(["-p", name]);
    });
    test.arg("--target-dir").arg(root.join("target/sanitize"));
    // A stable compiler has the sanitizers' libraries, but not the option.
    test.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address");
    let status = test.current_dir(root).status()?;
    ensure!(status.success(), "a test fails, or does what the sanitizer forbids");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_crate_that_may_say_unsafe_is_among_them() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let workspace = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
        let members = workspace.split("members = [").nth(1).unwrap().split(']').next().unwrap();
        let folders = members.split('"').skip(1).step_by(2);
        let manifests = folders
            .map(|folder| std::fs::read_to_string(root.join(folder).join("Cargo.toml")).unwrap());
        let may = manifests.filter(|text| text.contains("unsafe_code = \"allow\""));
        let names: Vec<String> = may
            .map(|text| text.split("name = \"").nth(1).unwrap().split('"').next().unwrap().into())
            .collect();
        assert!(!names.is_empty(), "{members}");
        let missing: Vec<_> = names.iter().filter(|name| !CRATES.contains(&&***name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

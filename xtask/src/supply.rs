//! `cargo xtask supply`: other people's code that is built here. Every package comes from the one
//! registry with its checksum, every crate that is asked for says why, and cargo-deny, where it is
//! installed, looks at licences, sources, duplicates, and advisories of the database that it keeps.

use crate::cargo::cargo;
use crate::tally::Tally;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use toml::{Table, Value};

/// The workspaces' lock files.
const LOCKS: [&str; 3] = ["Cargo.lock", "fuzz/Cargo.lock", "guest/Cargo.lock"];
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// Where cargo-deny keeps the database, below Cargo's own folder.
const DATABASE: &str = "advisory-dbs/advisory-db-3157b0e258782691";

pub fn run(root: &Path) -> Result<()> {
    let mut tally = Tally::default();
    check(root, &mut tally)?;
    println!("{}", tally.summary());
    Ok(())
}

pub fn check(root: &Path, tally: &mut Tally) -> Result<()> {
    let mut count = 0;
    for lock in LOCKS {
        let text = fs::read_to_string(root.join(lock)).with_context(|| lock.to_owned())?;
        count += packages(&text).with_context(|| lock.to_owned())?;
    }
    println!("{count} packages of others in {} lock files, each with its checksum", LOCKS.len());
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let silent = without_reason(&manifest);
    ensure!(silent.is_empty(), "Cargo.toml: no reason is given for {}", silent.join(", "));
    if !has_deny()? {
        skip("no cargo-deny: licences, sources and advisories", tally);
        return Ok(());
    }
    deny(root, &["licenses", "bans", "sources"])?;
    match home().join(DATABASE).is_dir() {
        true => deny(root, &["advisories"])?,
        false => skip("no database of advisories (cargo deny fetch db)", tally),
    }
    Ok(())
}

fn skip(what: &str, tally: &mut Tally) {
    let line = format!("skipped: {what}");
    println!("{line}");
    tally.take(&line);
}

/// How many packages of others a lock file has; an error names the first that may be another
/// tomorrow.
fn packages(lock: &str) -> Result<usize> {
    let lock: Table = lock.parse()?;
    let packages = lock.get("package").and_then(Value::as_array).context("no packages")?;
    let mut count = 0;
    for package in packages {
        let text = |key: &str| package.get(key).and_then(Value::as_str);
        // Without a source it is one of ours.
        let Some(source) = text("source") else { continue };
        let name = text("name").unwrap_or_default();
        ensure!(source == REGISTRY, "{name} comes from {source}");
        ensure!(text("checksum").is_some(), "{name} has no checksum");
        count += 1;
    }
    Ok(count)
}

/// Crates of others that the workspace's manifest asks for without a comment behind.
fn without_reason(manifest: &str) -> Vec<String> {
    let lines = manifest.lines().skip_while(|line| *line != "[workspace.dependencies]").skip(1);
    lines
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once(" = "))
        .filter(|(_, value)| !value.contains("path = ") && !value.contains("  # "))
        .map(|(name, _)| name.to_owned())
        .collect()
}

fn has_deny() -> Result<bool> {
    let mut version = cargo();
    version.args(["deny", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(version.status().context("cannot start cargo")?.success())
}

fn deny(root: &Path, checks: &[&str]) -> Result<()> {
    println!("cargo deny --locked --offline check {}", checks.join(" "));
    let mut deny = cargo();
    deny.args(["deny", "--locked", "--offline", "--log-level", "error", "check"]).args(checks);
    match deny.current_dir(root).status()?.success() {
        true => Ok(()),
        false => bail!("cargo deny finds something"),
    }
}

fn home() -> PathBuf {
    let own = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let user = || Path::new(&std::env::var_os("HOME").unwrap_or_default()).join(".cargo");
    own.unwrap_or_else(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_from_elsewhere_or_without_checksum_is_named() {
        let package =
            |more: &str| format!("[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n{more}");
        let registry = format!("source = \"{REGISTRY}\"\n");
        for (more, expected) in [
            ("", Ok(0)),
            (&*format!("{registry}checksum = \"00\"\n"), Ok(1)),
            (&*registry, Err("a has no checksum")),
            ("source = \"git+https://x/y\"\n", Err("a comes from git+https://x/y")),
        ] {
            let found = packages(&package(more)).map_err(|error| error.to_string());
            assert_eq!(found, expected.map_err(str::to_owned));
        }
    }

    #[test]
    fn crate_that_is_asked_for_without_a_reason_is_named() {
        let manifest = "[package]\nx = \"1\"\n[workspace.dependencies]\nours = { path = \"a\" }\n\
                        a = \"1\"  # for b; rather than c\nb = { version = \"1\" }\n[profile]\nc = 1\n";
        assert_eq!(without_reason(manifest), ["b"]);
    }
}

//! `cargo xtask ci`: every check that needs nothing but the toolchain, in the order of what fails fastest.

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// Steps that run cargo. The first word is the component: where a toolchain lacks it, the step says so.
const STEPS: [(&str, &[&str]); 4] = [
    ("fmt", &["fmt", "--all", "--check"]),
    ("clippy", &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]),
    (
        "clippy",
        &["clippy", "-p", "avicenna", "--no-default-features", "--quiet", "--", "-D", "warnings"],
    ),
    ("test", &["test", "--workspace", "--quiet"]),
];

pub fn run(root: &Path) -> Result<()> {
    println!("tidy");
    crate::tidy::check(root, false)?;
    for (name, arguments) in STEPS {
        if !is_installed(name)? {
            println!("{name}: skipped, because this toolchain has no cargo {name}");
            continue;
        }
        println!("cargo {}", arguments.join(" "));
        let status = cargo().args(arguments).current_dir(root).status()?;
        if !status.success() {
            bail!("cargo {name}: {status}");
        }
    }
    Ok(())
}

fn is_installed(name: &str) -> Result<bool> {
    let status = cargo()
        .args([name, "--help"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("cannot start cargo")?;
    Ok(status.success())
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

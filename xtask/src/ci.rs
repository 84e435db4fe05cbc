//! `cargo xtask ci`: every check that needs nothing but the toolchain, in the order of what fails
//! fastest. `cargo xtask test`: the same, and the scenarios that boot kernels. Both end with one
//! line that says what passed, and what was not tried and why.

use crate::cargo::cargo;
use crate::tally::Tally;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Steps that run cargo. The first word is the component: where a toolchain lacks it, the step says
/// so.
const STEPS: [(&str, &[&str]); 3] = [
    (FORMAT, &["fmt", "--all", "--check", "--"]),
    (
        "clippy",
        &["clippy", "--locked", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"],
    ),
    (
        "clippy",
        &[
            "clippy",
            "--locked",
            "-p",
            "avicenna",
            "--no-default-features",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ],
    ),
];
const FORMAT: &str = "fmt";
/// Modules that a build script lists, which cargo fmt does not find by itself.
const LISTED_BY_BUILD: [&str; 1] = ["host/rules/src/lint/rules"];
/// Fuzz targets compile, which nothing else shows: they are a workspace of their own, and need a
/// C++ compiler.
const FUZZ: &[&str] = &[
    "clippy",
    "--manifest-path=fuzz/Cargo.toml",
    "--target-dir=target",
    "--locked",
    "--bins",
    "--quiet",
    "--",
    "-D",
    "warnings",
];
const CPP_COMPILER: &str = "c++";
/// What passing tests print is where they say that they skipped.
const TESTS: &[&str] = &["test", "--locked", "--workspace", "--", "--show-output"];
/// Scripts that take the program.
const SCRIPTS: [&str; 3] =
    ["conformance/external/nested.sh", "host/change/tests/debian-roots.sh", "packaging/units.sh"];

pub fn run(root: &Path) -> Result<()> {
    let mut tally = Tally::default();
    checks(root, &mut tally)?;
    finish(&tally)
}

/// Everything, with a program that is there once the checks have passed. The hashes come last: they
/// rest on kernels that the scenarios fetch.
pub fn test(root: &Path, program: &Path) -> Result<()> {
    let mut tally = Tally::default();
    checks(root, &mut tally)?;
    crate::scenario::test(root, program, &mut tally)?;
    for script in SCRIPTS {
        println!("{script}");
        let mut command = Command::new(root.join(script));
        let tree = std::env::var_os("KVM_UNIT_TESTS").unwrap_or_default();
        let command = command.arg(program).arg(tree).current_dir(root);
        let status = watched(command, &mut tally, true)?;
        if !status {
            tally.fail(script);
        }
    }
    println!("plans");
    crate::plans::run(root, program, "", &mut tally)?;
    println!("golden");
    let choice = crate::golden::Choice { is_quick: true, writes: false, start: "" };
    crate::golden::run(root, program, choice, &mut tally)?;
    finish(&tally)
}

fn finish(tally: &Tally) -> Result<()> {
    println!("{}", tally.summary());
    if tally.is_pass() { Ok(()) } else { bail!("this run does not pass") }
}

fn checks(root: &Path, tally: &mut Tally) -> Result<()> {
    println!("tidy");
    crate::tidy::check(root, false)?;
    println!("supply");
    crate::supply::check(root, tally)?;
    for (name, arguments) in STEPS {
        if !is_installed(name)? {
            println!("{name}: skipped, because this toolchain has no cargo {name}");
            tally.miss(&format!("this toolchain has no cargo {name}"));
            continue;
        }
        println!("cargo {}", arguments.join(" "));
        let mut step = cargo();
        step.args(arguments).current_dir(root);
        if name == FORMAT {
            for folder in LISTED_BY_BUILD {
                step.args(files_of(&root.join(folder))?);
            }
        }
        let status = step.status()?;
        if !status.success() {
            bail!("cargo {name}: {status}");
        }
    }
    check_fuzz_targets(root, tally)?;
    println!("cargo {}", TESTS.join(" "));
    if !watched(cargo().args(TESTS).current_dir(root), tally, false)? {
        println!("{}", tally.summary());
        bail!("cargo test failed");
    }
    Ok(())
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

fn check_fuzz_targets(root: &Path, tally: &mut Tally) -> Result<()> {
    let has_compiler = Command::new(CPP_COMPILER).arg("--version").output().is_ok();
    if !has_compiler || !is_installed("clippy")? {
        let missing = "no C++ compiler or no cargo clippy: fuzz targets were not compiled";
        println!("skipped: {missing}");
        tally.miss(missing);
        return Ok(());
    }
    println!("cargo {}", FUZZ.join(" "));
    let status = cargo().args(FUZZ).current_dir(root).status()?;
    if !status.success() {
        bail!("the fuzz targets: {status}");
    }
    Ok(())
}

/// Runs a command and takes what it prints; whether it succeeded. Of cargo's tests only what failed
/// is shown, as far as the line tells.
fn watched(command: &mut Command, tally: &mut Tally, shows_all: bool) -> Result<bool> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start a step")?;
    let output = child.stdout.take().context("a step without output")?;
    let mut lines = Vec::new();
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        tally.take(&line);
        if shows_all {
            println!("{line}");
        } else {
            lines.push(line);
        }
    }
    let is_good = child.wait()?.success();
    if !is_good {
        lines.iter().filter(|line| !line.ends_with("... ok")).for_each(|line| println!("{line}"));
    }
    Ok(is_good)
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

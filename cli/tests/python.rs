//! The Python package in packaging/python, against this program: its own tests, doctests among
//! them, and its first example: from the tree, and installed by pip in an environment of its own
//! where that has what builds a package, or pip can fetch it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/python")
}

fn output(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(output),
        false => Err(format!(
            "{command:?}: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// A Python of at least 3.9.
fn has_python() -> bool {
    let check = "import sys; sys.exit(sys.version_info < (3, 9))";
    let found = output(Command::new("python3").args(["-c", check]));
    if let Err(why) = &found {
        println!("skipped: no python3 of at least 3.9: {why}");
    }
    found.is_ok()
}

fn tested(python: &Path, prepare: impl Fn(&mut Command)) {
    let mut command = Command::new(python);
    command.args(["-W", "error", "-m", "unittest", "discover", "-v", "tests"]);
    command.current_dir(package()).env("AVICENNA", env!("CARGO_BIN_EXE_avicenna"));
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    prepare(&mut command);
    let output = output(&mut command).expect("the package's tests pass");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("test_marks_nest") && said.contains("OK"), "{said}");
}

#[test]
fn the_package_in_the_tree_passes_its_tests() {
    if has_python() {
        tested(Path::new("python3"), |command| {
            command.env("PYTHONPATH", "src");
        });
    }
}

#[test]
fn the_package_that_pip_installs_passes_its_tests() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let environment = folder.path().join("environment");
    // pip writes beside what it builds.
    let source = folder.path().join("source");
    let copy = output(Command::new("cp").arg("-r").arg(package()).arg(&source));
    copy.expect("the package can be copied");
    let made = output(Command::new("python3").args(["-m", "venv"]).arg(&environment));
    let python = environment.join("bin/python3");
    let pip = |words: &[&str]| {
        let mut command = Command::new(&python);
        command.args(["-m", "pip", "install", "--disable-pip-version-check", "--retries", "0"]);
        output(command.args(words).arg(&source))
    };
    let offline = |_| pip(&["--no-index", "--no-build-isolation"]);
    let installed = made.and_then(offline).or_else(|_| pip(&["--timeout", "5"]));
    if let Err(why) = installed {
        println!("skipped: nothing here builds the package, and pip reaches no index: {why}");
        return;
    }
    tested(&python, |_| {});
}

#[test]
fn the_first_example_is_a_test_for_pytest() {
    if !has_python() {
        return;
    }
    if output(Command::new("python3").args(["-c", "import pytest"])).is_err() {
        println!("skipped: python3 has no pytest");
        return;
    }
    let mut command = Command::new("python3");
    command.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "avicenna.pytest_plugin"]);
    command.arg("examples").current_dir(package()).env("PYTHONPATH", "src");
    // Where the package is installed as well, its plugin would come twice.
    command.env("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1");
    command.env("AVICENNA", env!("CARGO_BIN_EXE_avicenna")).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = output(&mut command).expect("the example passes");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
}

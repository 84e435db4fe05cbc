//! Every example of the documentation is run, or is listed here with the reason why not.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Examples, or what they begin with, and why they are not run here.
const NOT_RUN: &[(&str, &str)] = &[
    ("snapshot --host", "the reader's folder; cli/tests/fleet.rs has its own"),
    ("report", "the reader's files and machines; cli/tests/fleet.rs has its own"),
    ("check --parquet", "the reader's folder; cli/tests/fleet.rs has its own"),
    ("exits report exits.json --parquet", "the reader's folder; cli/tests/fleet.rs has its own"),
    ("why", "needs a running machine; cli/tests/host.rs asks recorded ones"),
    ("lint web.xml", "the reader's file; cli/tests/lint.rs has its own"),
    ("lint windows.sh", "the sample's file; cli/tests/lint.rs has its own"),
    ("enable --apply", "changes the host; cli/tests/host.rs does so to a copy"),
    ("enable --root host", "the sample's host; cli/tests/samples.rs makes it"),
    ("enable --include vm-101", "the story's host; cli/tests/samples.rs makes it"),
    ("check --quiet --root host", "the story's host; cli/tests/samples.rs makes it"),
    ("lint host", "the story's host; cli/tests/samples.rs makes it"),
    ("rollback", "changes the host; cli/tests/host.rs does so to a copy"),
    ("check --root host", "the sample's host; cli/tests/samples.rs makes it"),
    ("snapshot -o", "reads all of a host; cli/tests/host.rs does so to a small one"),
    ("exits live", "needs root and a machine that runs"),
    ("exits record", "needs root and a machine that runs; cli/tests/exits_record.rs"),
    ("lab run", "fetches a kernel; cargo xtask scenario lab runs them"),
    ("lab calibrate", "fetches a kernel; cargo xtask scenario lab runs it"),
    ("lab predict", "the reader's profile; cargo xtask scenario lab has its own"),
    ("lab evidence --run", "runs the lab; cargo xtask scenario lab does"),
    ("lab exec", "fetches a kernel; cargo xtask scenario lab runs them"),
    (
        "lab explore",
        "fetches a kernel; the tests of lab/src/explore search the built-in hypervisor",
    ),
    ("lab watch", "fetches a kernel; cargo xtask scenario lab runs it"),
    ("lab suite", "fetches a kernel; cargo xtask scenario lab runs its own"),
    ("lab shell", "needs a terminal; cargo xtask scenario lab"),
    ("lab compare", "the reader's results; the tests of lab/src/result/compare.rs have their own"),
    ("lab clear", "removes what the reader keeps"),
    ("machine run", "boots a kernel; cargo xtask scenario boot runs them"),
    ("machine serve", "waits for a client; cli/tests/machine_serve.rs is one"),
    ("machine inspect", "the reader's snapshot; cli/tests/machine_run.rs makes one"),
    ("machine test", "the reader's images; the template's is run below"),
    ("machine trace", "the reader's file"),
    ("machine price", "the reader's file; cli/tests/machine_price.rs makes one"),
    ("bench", "needs KVM"),
    (
        "experiment run",
        "fetches a kernel; experiment/src/run/tests.rs runs them on a simulated host",
    ),
    ("experiment check firecracker-pit --on host", "the reader's machine; experiment_host.rs"),
    ("experiment check plan.toml", "the reader's plan; experiment/src/plan/tests.rs"),
    ("experiment status", "the reader's experiment; cli/tests/experiment_host.rs"),
    ("experiment resume", "the reader's experiment; cli/tests/experiment_host.rs"),
    ("experiment report", "the reader's experiment; cli/tests/experiment.rs"),
];

fn pages(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            self::pages(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}

/// Commands in the code of a page, without prompts and what is said about them.
fn commands(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let (mut is_fenced, mut carried) = (false, String::new());
    for line in text.lines() {
        if line.starts_with("```") {
            is_fenced = !is_fenced;
            continue;
        }
        if !is_fenced && !line.starts_with("    ") {
            continue;
        }
        let line = line.trim().trim_start_matches("$ ").trim_start_matches("sudo ");
        let line = format!("{carried}{line}");
        carried.clear();
        if !line.starts_with("avicenna ") {
            continue;
        }
        if let Some(begun) = line.strip_suffix('\\') {
            carried = begun.to_owned();
            continue;
        }
        // Two spaces set a remark off, so does a number sign.
        let command = line.split("  ").next().unwrap_or_default();
        let command = command.split(" #").next().unwrap_or_default();
        commands.push(command.trim_start_matches("avicenna ").trim().to_owned());
    }
    commands
}

/// A form, with what may be left out, is not an example.
fn is_a_form(command: &str) -> bool {
    command.contains(['[', '|', '…']) || command.contains("...")
}

fn all_commands() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths = vec![root.join("README.md")];
    pages(&root.join("docs"), &mut paths);
    let texts = paths.iter().map(|path| std::fs::read_to_string(path).expect("text"));
    texts.flat_map(|text| commands(&text)).collect()
}

/// A folder with the files that examples name.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples");
    std::fs::create_dir_all(&folder).expect("the target folder is writable");
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/capture/tests/data");
    for (name, source) in [
        ("perf.data", "small-x2apic-big.data.zst"),
        ("off.data", "small-xapic-pp.data.zst"),
        ("on.data", "small-x2apic-big.data.zst"),
    ] {
        std::fs::copy(data.join(source), folder.join(name)).expect("committed");
    }
    folder
}

#[test]
fn every_example_runs_or_says_why_not() {
    let folder = folder();
    let (mut ran, mut used) = (0, BTreeSet::new());
    for command in all_commands().iter().filter(|command| !is_a_form(command)) {
        let left_out = NOT_RUN.iter().find(|(prefix, _)| command.starts_with(prefix));
        if let Some((prefix, _)) = left_out {
            used.insert(*prefix);
            continue;
        }
        let output = Command::new(env!("CARGO_BIN_EXE_avicenna"))
            .args(command.split(' '))
            .current_dir(&folder)
            .output()
            .expect("the binary runs");
        let said = String::from_utf8_lossy(&output.stderr);
        // Findings are an answer, and so is what could not be told of this machine.
        let is_answered = matches!(output.status.code(), Some(0 | 1 | 3));
        assert!(is_answered && !output.stdout.is_empty(), "{command}: {said}");
        ran += 1;
    }
    assert!(ran >= 6, "{ran} examples were run");
    let unused: Vec<&str> =
        NOT_RUN.iter().map(|row| row.0).filter(|prefix| !used.contains(prefix)).collect();
    assert!(unused.is_empty(), "no page has these any more: {unused:?}");
}

#[test]
fn the_book_has_every_page() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).expect("text");
    let mut all = Vec::new();
    pages(&docs, &mut all);
    for page in all {
        let name = page.strip_prefix(&docs).expect("below").display().to_string();
        let is_there = name == "SUMMARY.md" || summary.contains(&format!("]({name})"));
        assert!(is_there, "docs/SUMMARY.md lacks {name}");
    }
}

#[test]
fn the_book_builds_as_the_readme_says() {
    if Command::new("mdbook").arg("--version").output().is_err() {
        println!("skipped: mdbook is not installed: cargo install mdbook");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new("make").arg("book").current_dir(&root).output().expect("make runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = std::fs::read_to_string(root.join("target/book/index.html")).expect("the book");
    assert!(page.contains("avicenna check"), "the first page is the operators'");
}

#[test]
fn the_template_of_a_hypervisor_builds_and_passes() {
    const TARGET: &str = "x86_64-unknown-none";
    let library =
        Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output();
    let is_there = library
        .is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir());
    if !is_there {
        println!("skipped: no Rust target {TARGET}: rustup target add {TARGET}");
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest/template");
    let program = Path::new(env!("CARGO_BIN_EXE_avicenna")).parent().expect("a folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").expect("a path"));
    let output = Command::new("cargo")
        .args(["run", "--quiet"])
        .current_dir(&folder)
        .env("PATH", path)
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("template"))
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("\nok 1 - hypervisor"), "{said}");
}

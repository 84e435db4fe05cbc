//! `cargo xtask`: the project's own checks and image building.

mod bill;
mod cargo;
mod ci;
mod fuzz;
mod golden;
mod guest;
mod parts;
mod pins;
mod plans;
mod room;
mod sanitize;
mod scenario;
mod supply;
mod tally;
mod tidy;

use anyhow::{Result, bail, ensure};
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask ci             formatting, clippy, tidy, tests: what has to hold before a change lands
       cargo xtask test [PROGRAM] the same, and the scenarios that boot kernels with the program, or
                                  with the one that the tests built
       cargo xtask test ROOM      the tests of one room: a crate by its folder's name, and modules in
                                  it, such as cpu::svm or clauses::vmx::entry
       cargo xtask golden [--all] [--write] [PROGRAM] [ROW]
                                  what the machine does, against golden/hashes.tsv: the rows of
                                  xtask test, or all, or those whose names begin with ROW
       cargo xtask scenario [NAME [OPTION=VALUE...]]
                                  what takes a booted kernel to show; without a name they are listed;
                                  program=FILE runs another program than the one that tests build
       cargo xtask kernel PROGRAM fetches the kernel that is booted first, and prints its file and its
                                  initial RAM disk's
       cargo xtask pins           kernels of the lab that the archive has newer ones of; --write takes these
       cargo xtask plans [PROGRAM] [PLAN]
                                  the experiments' plans in their smallest form
       cargo xtask tidy           the rules of this project that no compiler knows
       cargo xtask tidy --write   the same, after rewriting docs/deviations.md
       cargo xtask fuzz [MINUTES] [TARGET]
                                  every fuzz target, or one, for that long in all (10 minutes)
       cargo xtask sanitize [CRATE...]
                                  tests of the crates with unsafe code, under AddressSanitizer
       cargo xtask supply         other people's code: sources, checksums, reasons, and cargo-deny
       cargo xtask bill           the program's bill of materials, CycloneDX 1.6
       cargo xtask guest          the guests' images as files
       cargo xtask bench parts [OPTION=VALUE...]
                                  each part of the benchmark guest's mixes, here and on a peer by
                                  turns, as ratios of processor time";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        // Without the backtrace: what is wrong is in the project, not in here.
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["ci"] => ci::run(&root()),
        ["test"] => ci::test(&root(), &built_by_the_tests()?),
        ["test", room] if room::is_room(&root(), room) => room::test(&root(), room),
        ["test", program] => ci::test(&root(), &std::path::absolute(program)?),
        ["tidy"] => tidy::run(&root(), false),
        ["tidy", "--write"] => tidy::run(&root(), true),
        ["fuzz", words @ ..] => fuzz::run(&root(), words),
        ["sanitize", names @ ..] => sanitize::run(&root(), names),
        ["supply"] => supply::run(&root()),
        ["bill"] => bill::print(&root()),
        ["guest"] => guest::build(),
        ["bench", "parts", words @ ..] => parts::run(&root(), words),
        ["pins"] => pins::run(&root(), false),
        ["pins", "--write"] => pins::run(&root(), true),
        ["plans", arguments @ ..] => plans(arguments),
        ["golden", arguments @ ..] => golden(arguments),
        ["scenario", arguments @ ..] => scenario::run(&root(), &built_by_the_tests()?, arguments),
        ["kernel", program] => scenario::kernel(&root(), &std::path::absolute(program)?),
        _ => bail!("{USAGE}"),
    }
}

/// `[PROGRAM] [PLAN]`; a program's name has a slash.
fn plans(arguments: &[&str]) -> Result<()> {
    let (programs, starts): (Vec<&str>, Vec<&str>) =
        arguments.iter().partition(|word| word.contains('/'));
    let program = match programs.as_slice() {
        [] => built_by_the_tests()?,
        [program] => std::path::absolute(program)?,
        _ => bail!("{USAGE}"),
    };
    let mut tally = tally::Tally::default();
    plans::run(&root(), &program, starts.first().unwrap_or(&""), &mut tally)?;
    println!("{}", tally.summary());
    if tally.is_pass() { Ok(()) } else { bail!("a plan does not come to what it came to") }
}

/// `[--all] [--write] [PROGRAM] [ROW]`; a program's name has a slash.
fn golden(arguments: &[&str]) -> Result<()> {
    let (options, names): (Vec<&str>, Vec<&str>) =
        arguments.iter().partition(|word| word.starts_with("--"));
    let unknown = options.iter().find(|option| !["--all", "--write"].contains(*option));
    let (programs, starts): (Vec<&str>, Vec<&str>) =
        names.into_iter().partition(|name| name.contains('/'));
    if unknown.is_some() || programs.len() > 1 || starts.len() > 1 {
        bail!("{USAGE}");
    }
    let program = match programs.first() {
        Some(program) => std::path::absolute(program)?,
        None => built_by_the_tests()?,
    };
    let start = starts.first().copied().unwrap_or_default();
    let choice = golden::Choice {
        // A row that is named runs wherever it belongs.
        is_quick: !options.contains(&"--all") && start.is_empty(),
        writes: options.contains(&"--write"),
        start,
    };
    let mut tally = tally::Tally::default();
    golden::run(&root(), &program, choice, &mut tally)?;
    println!("{}", tally.summary());
    if tally.is_pass() { Ok(()) } else { bail!("the machine does something else than it did") }
}

/// Cargo puts it beside this program, wherever that is; before the first tests it is built.
fn built_by_the_tests() -> Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name("avicenna");
    if !program.exists() {
        let words = ["build", "--quiet", "--locked", "--package", "avicenna"];
        let status = cargo::cargo().args(words).current_dir(root()).status()?;
        ensure!(status.success(), "the program cannot be built");
    }
    Ok(program)
}

/// The workspace's folder.
fn root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}

//! `cargo xtask fuzz [MINUTES] [TARGET]`: every fuzz target for its part of the time, one after the
//! other, at the lowest priority. What they found worth keeping is kept in target/fuzz/corpus; what
//! was executed and reached is noted in target/fuzz/runs.tsv, a line for each run: when, target,
//! seconds, seconds of processor time, executions, edges reached, outcome.

use crate::cargo::cargo;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime};
use toml::Table;

/// Minutes, if nothing is said.
const USUAL: u64 = 10;
/// What cargo-fuzz gives the compiler, but for sanitizers, which a stable one has not.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing";
const HOST: &str = "x86_64-unknown-linux-gnu";
/// An input that takes longer, in seconds, or more memory, in MiB, is a finding.
const LIMITS: [&str; 2] = ["-timeout=25", "-rss_limit_mb=1024"];
/// Real inputs to begin with, by target.
const SEEDS: [(&str, &str); 6] = [
    ("acpi_table", "host/facts/tests/data/acpi"),
    ("exits", "host/capture/tests/data"),
    ("recording", "host/capture/tests/data"),
    ("plan", "experiment/plans"),
    ("plan", "machine/models"),
    ("plan", "machine/board/costs"),
];

/// What a run came to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    executions: u64,
    /// Edges of the program that were reached.
    coverage: u64,
}

pub fn run(root: &Path, words: &[&str]) -> Result<()> {
    let (minutes, wanted) = match words {
        [] => (USUAL, None),
        [minutes] => (minutes.parse().context("MINUTES is a whole number")?, None),
        [minutes, target] => (minutes.parse().context("MINUTES is a whole number")?, Some(*target)),
        _ => bail!("cargo xtask fuzz [MINUTES] [TARGET]"),
    };
    let all = targets(root)?;
    let chosen: Vec<&str> =
        all.iter().map(String::as_str).filter(|one| wanted.is_none_or(|it| it == *one)).collect();
    ensure!(!chosen.is_empty(), "no such target; there are {}", all.join(", "));
    let programs = build(root)?;
    let seconds = (minutes * 60 / chosen.len() as u64).max(1);
    let mut found = Vec::new();
    for target in chosen {
        if !fuzz(root, &programs, target, seconds)? {
            found.push(target);
        }
    }
    ensure!(found.is_empty(), "inputs that end or hold up {}: target/fuzz/found", found.join(", "));
    Ok(())
}

/// As the fuzz targets' own manifest names them.
fn targets(root: &Path) -> Result<Vec<String>> {
    let manifest: Table = fs::read_to_string(root.join("fuzz/Cargo.toml"))?.parse()?;
    let programs = manifest.get("bin").and_then(toml::Value::as_array).context("no targets")?;
    let names = programs.iter().filter_map(|program| program.get("name")?.as_str());
    Ok(names.map(str::to_owned).collect())
}

/// Builds all, in a folder of their own, and answers where they are.
fn build(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/fuzz");
    let mut build = cargo();
    build.args(["build", "--locked", "--release", "--manifest-path=fuzz/Cargo.toml"]);
    build.args(["--target", HOST, "--target-dir"]).arg(&folder);
    let status = build.env("RUSTFLAGS", COVERAGE).current_dir(root).status()?;
    ensure!(status.success(), "the fuzz targets do not compile");
    Ok(folder.join(HOST).join("release"))
}

/// Whether nothing was found.
fn fuzz(root: &Path, programs: &Path, target: &str, seconds: u64) -> Result<bool> {
    let folder = root.join("target/fuzz");
    let [corpus, found] = ["corpus", "found"].map(|part| folder.join(part).join(target));
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&found)?;
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(programs.join(target)).args(LIMITS);
    command.arg(format!("-max_total_time={seconds}")).arg("-print_final_stats=1");
    command.arg(format!("-artifact_prefix={}/", found.display())).arg(&corpus);
    let seeds = SEEDS.iter().filter(|(name, _)| *name == target);
    command.args(seeds.map(|(_, folder)| root.join(folder)));
    let (began, spent) = (Instant::now(), spent_by_children());
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let tally = tally(&said);
    let took = began.elapsed().as_secs();
    let processor = spent_by_children() - spent;
    let outcome = if output.status.success() { "clean" } else { "found" };
    let Tally { executions, coverage } = tally;
    println!(
        "{target}: {took} s, {processor:.1} s of processor time, {executions} executions, {coverage} edges, {outcome}"
    );
    if !output.status.success() {
        let last: Vec<&str> = said.lines().rev().take(20).collect();
        last.iter().rev().for_each(|line| println!("  {line}"));
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
    let line =
        format!("{now}\t{target}\t{took}\t{processor:.1}\t{executions}\t{coverage}\t{outcome}\n");
    let mut notes = fs::File::options().create(true).append(true).open(folder.join("runs.tsv"))?;
    notes.write_all(line.as_bytes())?;
    Ok(output.status.success())
}

/// Seconds of processor time of programs that have ended. [proc_pid_stat(5) "cutime"]
fn spent_by_children() -> f64 {
    const TICKS_A_SECOND: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, in parentheses, may have spaces; the state is the first word behind it.
    let words = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: f64 = words.skip(13).take(2).filter_map(|word| word.parse::<f64>().ok()).sum();
    ticks / TICKS_A_SECOND
}

/// What libFuzzer says at its end, and of coverage at every step.
fn tally(said: &str) -> Tally {
    let number = |text: &str| text.split_whitespace().next()?.parse::<u64>().ok();
    let behind = |mark: &str| {
        said.lines().rev().find_map(|line| number(line.split_once(mark)?.1)).unwrap_or_default()
    };
    Tally { executions: behind("stat::number_of_executed_units:"), coverage: behind(" cov: ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_and_edges_are_the_last_that_were_said() {
        let said = "#2\tINITED cov: 12 ft: 14 corp: 1/1b\n#99\tNEW    cov: 571 ft: 2363 corp: 2/9b\n\
                    #120\tDONE   cov: 572 ft: 2363 corp: 2/9b\nstat::number_of_executed_units: 120\n";
        assert_eq!(tally(said), Tally { executions: 120, coverage: 572 });
        assert_eq!(tally("it did not start"), Tally::default());
    }

    #[test]
    fn targets_are_those_of_the_manifest_and_each_has_its_file() {
        let root = crate::root();
        let targets = targets(&root).unwrap();
        assert!(targets.len() >= 11);
        for target in targets {
            assert!(root.join(format!("fuzz/fuzz_targets/{target}.rs")).is_file(), "{target}");
        }
    }
}

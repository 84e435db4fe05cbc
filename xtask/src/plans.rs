//! `cargo xtask plans`: each shipped plan that runs in the lab, in its smallest form: one block,
//! whose exact figures must go the way that the silicon's mechanism says. Plans of programs of
//! kvm-unit-tests run in the tree that the environment's `KVM_UNIT_TESTS` names.

use crate::tally::Tally;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

const WORK: &str = "target/plans";

/// What a cell's metric must come to. The verdicts are of counts, which are exact: times are left
/// to the plans in full.
struct Expected {
    plan: &'static str,
    /// A level that the cell's name has; empty for all of the plan's.
    cell: &'static str,
    metric: &'static str,
    verdict: &'static str,
}

const fn expect(
    plan: &'static str,
    cell: &'static str,
    metric: &'static str,
    verdict: &'static str,
) -> Expected {
    Expected { plan, cell, metric, verdict }
}

/// The arm that never took effect is a verdict too.
const VOID: &str = "void";
const WORK_EXITS: &str = "exits other than HLT";

const EXPECTED: &[Expected] = &[
    expect("firecracker-pit", "", "time inhibited", "different"),
    expect("firecracker-pit", "", WORK_EXITS, "better"),
    expect("firecracker-avic", "reinject", WORK_EXITS, VOID),
    expect("firecracker-avic", "discard", WORK_EXITS, "better"),
    expect("avic-vmexit-ipi", "", WORK_EXITS, "better"),
    expect("avic-device", "", "posted", "different"),
    expect("avic-device", "", WORK_EXITS, "better"),
    expect("ipiv-vmexit", "", WORK_EXITS, "better"),
    expect("ipi-benchmark", "", "normal IPI", ""),
    expect("x2avic-fence", "", "IPI, acknowledged", ""),
    expect("ipiv-hackbench", "", WORK_EXITS, "better"),
    expect("avic-sysbench", "", WORK_EXITS, "better"),
    expect("apicv-iozone", "", "interrupt windows", "better"),
    expect("apicv-iozone", "", "random read", ""),
    expect("x2avic-fence-linux", "", "call", ""),
    expect("apicv-xen-netperf", "", "16,384 bytes", ""),
    expect("avic-vmexit-kut", "", WORK_EXITS, "better"),
    expect("ipiv-vmexit-kut", "", WORK_EXITS, "better"),
];

/// What the smallest form has instead: plan, its words, others.
const SMALLER: [(&str, &str, &str); 2] = [
    ("apicv-iozone", "lab = [1, 4, 12]", "lab = [1]"),
    ("apicv-xen-netperf", "levels = [1, 2]", "levels = [1, 2]\nlab = [1]"),
];
/// How names of plans end that run a program of kvm-unit-tests, and who names its tree.
const OF_TESTS: (&str, &str) = ("-kut", "KVM_UNIT_TESTS");

/// The smallest trials, as a whole and in parts.
const PARTS: &str = "smallest";

/// Runs the plans whose names begin so, and takes what they come to into the tally.
pub fn run(root: &Path, program: &Path, start: &str, tally: &mut Tally) -> Result<()> {
    let mut names: Vec<&str> = EXPECTED.iter().map(|one| one.plan).chain([PARTS]).collect();
    names.dedup();
    names.retain(|name| name.starts_with(start));
    if names.is_empty() {
        bail!("no plan's name begins with {start:?}");
    }
    let work = root.join(WORK);
    fs::create_dir_all(&work).with_context(|| work.display().to_string())?;
    let (left, found) = (Mutex::new(names.into_iter()), Mutex::new((0, 0)));
    let next = || left.lock().ok()?.next();
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get());
    let tally = Mutex::new(tally);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(plan) = next() {
                    let result = match plan {
                        PARTS => parts(program, &work),
                        _ => one(root, program, &work, plan),
                    };
                    let line = match result {
                        Ok(None) => None,
                        Ok(Some(missing)) => Some(format!("skipped: {missing}")),
                        Err(error) => Some(format!("FAILED: {error:#}")),
                    };
                    println!("plan {plan}: {}", line.as_deref().unwrap_or("as expected"));
                    let (Ok(mut found), Ok(mut tally)) = (found.lock(), tally.lock()) else {
                        return;
                    };
                    match line {
                        None => found.0 += 1,
                        Some(line) if line.starts_with("skipped") => tally.take(&line),
                        Some(_) => found.1 += 1,
                    }
                }
            });
        }
    });
    let (passed, failed) = *found.lock().map_err(|_| anyhow::anyhow!("a plan panicked"))?;
    let line = format!("plans: {passed} passed, {failed} failed");
    println!("{line}");
    if let Ok(tally) = tally.into_inner() {
        tally.take(&line);
    }
    Ok(())
}

/// Nothing where all is as expected; what this machine lacks where the plan cannot run.
fn one(root: &Path, program: &Path, work: &Path, plan: &str) -> Result<Option<String>> {
    let folder = work.join(plan);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    let mut command = Command::new(program);
    command.current_dir(root);
    if plan.ends_with(OF_TESTS.0) {
        let Some(tree) = std::env::var_os(OF_TESTS.1).filter(|tree| !tree.is_empty()) else {
            return Ok(Some(format!("plan {plan}: no tree of kvm-unit-tests was given")));
        };
        command.current_dir(tree);
    }
    command.args(["experiment", "run"]).arg(smallest(program, work, plan)?);
    let output = command
        .args(["--yes", "--blocks", "1", "--format", "json", "-o"])
        .arg(&folder)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if let Some(missing) = said.lines().find(|line| is_missing(line)) {
        // What follows is advice, and folded.
        let cause = missing.split(';').next().unwrap_or(missing);
        return Ok(Some(format!("plan {plan}: {}", cause.trim_start_matches("blocked: "))));
    }
    let answer: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("no answer: {}", said.lines().last().unwrap_or_default()))?;
    for expected in EXPECTED.iter().filter(|one| one.plan == plan) {
        check(&answer, expected)?;
    }
    Ok(None)
}

/// The plan's name, or the file of what is left of it.
fn smallest(program: &Path, work: &Path, plan: &str) -> Result<PathBuf> {
    let Some((_, from, to)) = SMALLER.iter().find(|(name, ..)| *name == plan) else {
        return Ok(plan.into());
    };
    let shown = Command::new(program).args(["experiment", "show", plan, "--plain"]).output()?;
    let text = String::from_utf8(shown.stdout)?;
    ensure!(text.contains(from), "plan {plan} has no {from}");
    let file = work.join(format!("{plan}.toml"));
    fs::write(&file, text.replace(from, to)).with_context(|| file.display().to_string())?;
    Ok(file)
}

/// Trials of one run, which go on where others left their machines, against each in a process of
/// its own: the same answer to the byte.
fn parts(program: &Path, work: &Path) -> Result<Option<String>> {
    const TRIALS: usize = 4;
    let plan = work.join(format!("{PARTS}.toml"));
    fs::write(&plan, include_str!("plans/smallest.toml"))?;
    let run = |name: &str, words: &[&str]| {
        let folder = work.join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        let mut command = Command::new(program);
        command.args(["experiment", "run"]).arg(&plan).args(["--blocks", "2"]).args(words);
        let output = command.args(["--format", "json", "-o"]).arg(&folder).output()?;
        anyhow::Ok((folder, output))
    };
    let (_, whole) = run("whole", &["--jobs", "2"])?;
    let said = String::from_utf8_lossy(&whole.stderr);
    if let Some(missing) = said.lines().find(|line| is_missing(line)) {
        return Ok(Some(format!("plan {PARTS}: {missing}")));
    }
    let shards = (1..=TRIALS).map(|number| {
        let share = format!("{number}/{TRIALS}");
        run(&format!("part-{number}"), &["--shard", &share]).map(|(folder, _)| folder)
    });
    let shards = shards.collect::<Result<Vec<_>>>()?;
    let mut report = Command::new(program);
    let report =
        report.args(["experiment", "report", "--format", "json"]).args(&shards).output()?;
    ensure!(whole.stdout.starts_with(b"{"), "no answer: {said}");
    ensure!(whole.stdout == report.stdout, "the parts give another answer than the whole");
    Ok(None)
}

/// The program's own words for what is not to be had here.
fn is_missing(line: &str) -> bool {
    ["is not on this machine", "no kernel", "cannot start apt-get", " was not run: "]
        .iter()
        .any(|words| line.contains(words))
}

fn check(answer: &Value, expected: &Expected) -> Result<()> {
    let cells = answer["cells"].as_array().context("an answer without cells")?;
    let is_meant = |cell: &&Value| {
        let levels = cell["cell"].as_object();
        expected.cell.is_empty()
            || levels.is_some_and(|levels| levels.values().any(|level| level == expected.cell))
    };
    let meant: Vec<&Value> = cells.iter().filter(is_meant).collect();
    ensure!(!meant.is_empty(), "no cell of {}", expected.cell);
    for cell in meant {
        let metric = cell["metrics"]
            .as_array()
            .and_then(|metrics| metrics.iter().find(|one| one["name"] == expected.metric))
            .with_context(|| format!("{}: not measured", expected.metric))?;
        let found = match cell["void"].is_null() {
            false => VOID,
            true => metric["verdict"]["verdict"].as_str().unwrap_or("no verdict"),
        };
        // A time is only asked to be there, in both arms.
        let is_as_expected = match expected.verdict {
            "" => found != VOID && metric["after"]["median"].as_f64().is_some(),
            verdict => found == verdict,
        };
        ensure!(
            is_as_expected,
            "{} {}: {found} instead of {}: {}",
            cell["cell"],
            expected.metric,
            expected.verdict,
            answer["sentence"]
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cell_of_another_verdict_is_refused_and_a_time_must_be_there() {
        let metric = |verdict: &str| json!({"name": "x", "verdict": {"verdict": verdict}, "after": {"median": 1.5}});
        let answer = |void: Value, verdict: &str| {
            json!({"sentence": "", "cells": [
            {"cell": {"pit": "reinject"}, "void": void, "metrics": [metric(verdict)]}]})
        };
        let better = answer(Value::Null, "better");
        let nowhere = answer(json!({"level": "on"}), "better");
        for (answer, cell, verdict, holds) in [
            (&better, "", "better", true),
            (&better, "reinject", "better", true),
            (&better, "discard", "better", false),
            (&better, "", "worse", false),
            (&better, "", VOID, false),
            (&better, "", "", true),
            (&nowhere, "", VOID, true),
            (&nowhere, "", "better", false),
            (&nowhere, "", "", false),
        ] {
            let found = check(answer, &expect("plan", cell, "x", verdict));
            assert_eq!(found.is_ok(), holds, "{cell} {verdict}");
        }
        assert!(check(&better, &expect("plan", "", "y", "better")).is_err());
    }
}

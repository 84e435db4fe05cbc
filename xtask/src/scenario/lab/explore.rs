//! `lab explore` on a distribution's kernel: a fault of its that is known is found, by as many jobs
//! as there are, and repeats.

use super::super::check::Checks;
use super::session::{Lab, Said};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// KVM of Linux 6.1 finds the wrong vCPU for the second target of a logical destination.
const KNOWN: &str = "asleep-logical";
/// The same in the first configuration of those that a search draws.
const DRAWN: &str = "asleep-logical-batch-0";

pub(super) fn check(lab: &Lab<'_>, checks: &mut Checks) {
    let folder = lab.work.join("findings");
    let what = "explore finds what two jobs find, and that KVM of Linux 6.1 loses a wake-up";
    checks.succeed(what, finds_the_known(lab, &folder));
    let what = "explore: the finding repeats to the last record";
    checks.succeed(what, repeats(lab, &folder));
    let what = "explore replay --step: a prompt in its window, which comes to the same end";
    checks.succeed(what, is_stepped_through(lab, &folder));
    let what = "explore bisect finds on its own kernel what the finding is of";
    checks.succeed(what, is_sought(lab, &folder));
    let what = "explore reproducer: the C program sees the fault with AVIC, and nothing without";
    checks.succeed(what, is_reproduced(lab, &folder));
    let what =
        "explore --with: AVIC goes off and on, vCPUs move and get messages, and the fault is found";
    checks.succeed(what, changes(lab, &folder));
    let what =
        "explore --with device: the IOMMU posts a function's interrupts, and the guest goes on";
    checks.succeed(what, posts(lab, &folder));
    let what = "explore --with startup: processors are started again, and the guest goes on";
    checks.succeed(what, starts(lab, &folder));
}

fn finds_the_known(lab: &Lab<'_>, folder: &Path) -> Result<()> {
    let one = search(lab, folder, "1")?;
    let found = one["batches"][0]["findings"].as_array().context("no findings")?;
    ensure!(found.iter().any(|found| found["cause"] == DRAWN), "{found:?}");
    let two = search(lab, folder, "2")?;
    ensure!(one == two, "two jobs: {two} and not {one}");
    Ok(())
}

fn search(lab: &Lab<'_>, folder: &Path, jobs: &str) -> Result<Value> {
    let folder = folder.display().to_string();
    let words = ["explore", "--kernel", &lab.kernel, "--windows", "42", "--format", "json"];
    let said = lab.said(&[&words[..], &["--jobs", jobs, "-o", &folder]].concat())?;
    ensure!(said.status == Some(1), "status {:?}: {}", said.status, said.errors);
    let mut report = serde_json::from_str(&said.output).context("no report")?;
    take_out_times(&mut report);
    Ok(report)
}

fn repeats(lab: &Lab<'_>, folder: &Path) -> Result<()> {
    let file = folder.join(format!("{DRAWN}.json")).display().to_string();
    let said = lab.said(&["explore", "replay", &file])?;
    ensure!(said.status == Some(0), "status {:?}: {}{}", said.status, said.output, said.errors);
    ensure!(said.output.contains("the same to the last record"), "{}", said.output);
    Ok(())
}

fn is_stepped_through(lab: &Lab<'_>, folder: &Path) -> Result<()> {
    let file = folder.join(format!("{DRAWN}.json")).display().to_string();
    let mut command = lab.command(&["explore", "replay", "--step", &file]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start the lab")?;
    let mut lines = child.stdin.take().context("no input")?;
    lines.write_all(b"until virtual-ipi\ninfo lapic 1\nstep 3\nnext\nquit\n")?;
    drop(lines);
    let said = Said::of(child.wait_with_output()?);
    ensure!(said.status == Some(0), "status {:?}: {}{}", said.status, said.output, said.errors);
    for wanted in ["virtual-ipi ", "local APIC", "processor 0: ", "the same to the last record"] {
        ensure!(said.output.contains(wanted), "{wanted}: {}", said.output);
    }
    Ok(())
}

fn is_sought(lab: &Lab<'_>, folder: &Path) -> Result<()> {
    let file = folder.join(format!("{DRAWN}.json")).display().to_string();
    let words = ["explore", "bisect", &file, "--kernels", &lab.kernel, "--windows", "39"];
    let said = lab.said(&[&words[..], &["--format", "json"]].concat())?;
    ensure!(said.status == Some(1), "status {:?}: {}", said.status, said.errors);
    let answer: Value = serde_json::from_str(&said.output).context("no answer")?;
    ensure!(answer["kernels"][0]["found"] == true, "{answer}");
    Ok(())
}

fn is_reproduced(lab: &Lab<'_>, folder: &Path) -> Result<()> {
    let file = folder.join(format!("{DRAWN}.json")).display().to_string();
    let program = lab.work.join("reproducer");
    let place = program.display().to_string();
    let said = lab.said(&["explore", "reproducer", &file, "-o", &place])?;
    ensure!(said.status == Some(0), "status {:?}: {}", said.status, said.errors);
    let made = Command::new("make").args(["--silent", "-C", &place]).output().context("make")?;
    ensure!(made.status.success(), "make: {}", String::from_utf8_lossy(&made.stderr));
    for (feature, status) in [("on", 1), ("off", 0)] {
        let words = ["suite", &place, "--kernel", &lab.kernel, "--feature", feature];
        let said = lab.said(&[&words[..], &["--format", "tap", "--", "reproducer 1"]].concat())?;
        let told = said.output.contains("slept on");
        let is_right = said.status == Some(status) && told == (feature == "on");
        ensure!(is_right, "{feature}: status {:?}: {}{}", said.status, said.output, said.errors);
    }
    Ok(())
}

fn changes(lab: &Lab<'_>, folder: &Path) -> Result<()> {
    let report = search_with(lab, folder, "auto-eoi,migration,messages", "39")?;
    let sum = |what: &str| sum(&report, what);
    ensure!(sum("switches") > 0 && sum("moves") > 0, "{}", report["strategies"]);
    let found = report["findings"].as_array().context("no findings")?;
    ensure!(found.iter().any(|found| found["cause"] == KNOWN), "{found:?}");
    Ok(())
}

fn posts(lab: &Lab<'_>, folder: &Path) -> Result<()> {
    let report = search_with(lab, folder, "device,migration", "15")?;
    let sum = |what: &str| sum(&report, what);
    ensure!(sum("posts") > 0 && sum("moves") > 0, "{}", report["strategies"]);
    Ok(())
}

fn starts(lab: &Lab<'_>, folder: &Path) -> Result<()> {
    // In the first moment of three none is.
    let report = search_with(lab, folder, "startup,messages", "45")?;
    ensure!(sum(&report, "starts") > 0, "{}", report["strategies"]);
    Ok(())
}

/// A search whose guest goes on.
fn search_with(lab: &Lab<'_>, folder: &Path, with: &str, windows: &str) -> Result<Value> {
    let folder = folder.display().to_string();
    let words = ["explore", "--kernel", &lab.kernel, "--with", with];
    let rest = ["--windows", windows, "--format", "json", "-o", &folder];
    let said = lab.said(&[&words[..], &rest].concat())?;
    let report: Value = serde_json::from_str(&said.output).context("no report")?;
    // A vector that the guest does not handle would end it.
    ensure!(report["end"].is_null(), "{}", report["end"]);
    Ok(report)
}

fn sum(report: &Value, what: &str) -> u64 {
    let rows = report["strategies"].as_array().into_iter().flatten();
    rows.filter_map(|row| row["changes"][what].as_u64()).sum()
}

/// What a search took of this machine's processors is another each time.
fn take_out_times(value: &mut Value) {
    if let Some(members) = value.as_object_mut() {
        members.remove("cpu_seconds");
        members.values_mut().for_each(take_out_times);
    }
    if let Some(elements) = value.as_array_mut() {
        elements.iter_mut().for_each(take_out_times);
    }
}

//! Calibration: a host with another clock than the lab's is noticed, by its guest's times alone.
//! How well workloads are predicted is `lab calibrate --closed-loop 20`, which takes half an hour.

use super::super::check::Checks;
use super::session::Lab;
use anyhow::{Result, ensure};

pub(super) fn check(lab: &Lab<'_>, checks: &mut Checks) {
    checks.succeed("calibration: another clock is noticed", notices_a_clock(lab));
}

fn notices_a_clock(lab: &Lab<'_>) -> Result<()> {
    let there = "/measured.json";
    let here = lab.work.join("measured.json").display().to_string();
    let get = format!("{there}={here}");
    let words = ["bench", "calibrate", "-o", there, "--repeats", "1"];
    let measured = lab.exec(&["--clock", "base", "--get", &get], &words)?;
    ensure!(measured.status == Some(0), "{measured:?}");
    let said = lab.said(&["calibrate", "--kernel", &lab.kernel, &here])?;
    ensure!(said.status == Some(1) && said.output.starts_with("MISFIT"), "{said:?}");
    // Where IPIs have two modes, no clock explains the times better by as much as it takes to be
    // named; one that is named has to be the right one: 2.4 GHz for 3.7.
    if let Some((_, named)) = said.output.split_once("core clock of ") {
        let ratio: f64 = named.split(' ').next().unwrap_or_default().parse()?;
        ensure!((ratio - 2.4 / 3.7).abs() < 0.04, "{ratio}: {said:?}");
    }
    Ok(())
}

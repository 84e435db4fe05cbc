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
    let said = lab.said(&["calibrate", "--kernel", &lab.kernel, "--error", "0.3", &here])?;
    // Which clock it has is not told with every kernel.
    let is_said = said.output.contains("MISFIT");
    ensure!(said.status == Some(1) && is_said, "{said:?}");
    Ok(())
}

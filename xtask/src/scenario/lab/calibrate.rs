//! Calibration: a hidden host's profile is fitted from what its own guest measured, and a host with
//! another clock is noticed. The full form of the proof is `lab calibrate --closed-loop 20`.

use super::super::check::Checks;
use super::session::{Lab, Said};
use anyhow::{Context, Result, ensure};

/// Percent of a prediction: the bars of the full form, where a median is of hundreds.
const MEDIAN: f64 = 5.0;

pub(super) fn check(lab: &Lab<'_>, checks: &mut Checks) {
    checks.succeed("calibration: a hidden host is predicted", predicts_a_hidden_host(lab));
    checks.succeed("calibration: another clock is noticed", notices_a_clock(lab));
}

fn predicts_a_hidden_host(lab: &Lab<'_>) -> Result<()> {
    let said = lab.said(&[
        "calibrate",
        "--kernel",
        &lab.kernel,
        "--closed-loop",
        "1",
        "--error",
        "0.3",
        "--predict",
        "timer",
    ])?;
    ensure!(said.status == Some(0) && !said.output.contains("MISFIT"), "{said:?}");
    let error = number(&said, "median error ")?;
    let unfitted = number(&said, "without a fit ")?;
    ensure!(error <= MEDIAN && error < unfitted, "{error} %, without a fit {unfitted} %");
    Ok(())
}

/// The number behind some words.
fn number(said: &Said, words: &str) -> Result<f64> {
    let (_, after) = said.output.split_once(words).with_context(|| format!("{words}: {said:?}"))?;
    let word = after.split(' ').next().unwrap_or_default();
    word.parse().with_context(|| format!("{word:?} must be a number"))
}

fn notices_a_clock(lab: &Lab<'_>) -> Result<()> {
    let there = "/measured.json";
    let here = lab.work.join("measured.json").display().to_string();
    let get = format!("{there}={here}");
    let words = ["bench", "calibrate", "-o", there, "--repeats", "1"];
    let measured = lab.exec(&["--clock", "base", "--get", &get], &words)?;
    ensure!(measured.status == Some(0), "{measured:?}");
    let said = lab.said(&["calibrate", "--kernel", &lab.kernel, "--error", "0.3", &here])?;
    let is_said = said.output.contains("MISFIT") && said.output.contains("times the model's clock");
    ensure!(said.status == Some(1) && is_said, "{said:?}");
    Ok(())
}

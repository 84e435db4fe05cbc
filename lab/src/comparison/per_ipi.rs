//! How many VM exits an interprocessor interrupt takes: what a run found, and on Intel what is to
//! be expected of the features that were on.
//!
//! IPI virtualization sends fixed IPIs with a physical destination and no shorthand without an exit
//! [SDM3 "IPI Virtualization"]; APICv alone leaves each write of the ICR to KVM and does the rest;
//! without it, KVM is asked to send, interrupts the target so that it looks at its APIC, and hears
//! of the end. A target that has halted is in KVM already and is not interrupted. Left out: AMD's
//! numbers are shown and not expected, since kernels that work around erratum 1235 leave every IPI
//! to software.

use crate::drive::observed::Observed;
use crate::protocol::Guest;
use report::grid::grouped;
use serde::Serialize;
use serde_json::Value as Json;
use trace::exit_reason::Isa;

/// The most that a virtual machine does besides sending IPIs, start and end above all, in exits per
/// IPI.
const OTHER: f64 = 0.1;
/// Without virtualization of interrupts: to send, to tell the target, to end. Where a target is in
/// KVM already and need not be told, starting and ending make up for it.
const LEAST_WITHOUT: f64 = 3.0;
/// The same where targets halt: to send, to end.
const LEAST_TO_HALTED: f64 = 2.0;

/// The exits of one run by its IPIs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExitsPerIpi {
    /// Whether the feature, or part of it, was on.
    pub is_on: bool,
    /// Which arm it was, in a word or two.
    #[serde(skip)]
    side: String,
    /// IPIs that the guest sent with a physical destination.
    pub physical: u64,
    /// IPIs that it sent with a logical one.
    pub logical: u64,
    /// Exits other than HLT, by all of these.
    pub exits: f64,
    /// The least and the most of them that there can be by what was on, where that is known.
    pub expected: Option<(f64, Option<f64>)>,
    /// Why so many are expected.
    #[serde(skip)]
    rule: &'static str,
}

impl ExitsPerIpi {
    /// Which arm it was, in a word or two.
    pub fn side(&self) -> &str {
        &self.side
    }

    /// None where the guest does not say how many IPIs it sent. `exits` are those that are not
    /// waits; a virtual machine that was inhibited is expected nothing of.
    pub(crate) fn of(observed: &Observed, exits: u64, is_inhibited: bool) -> Option<Self> {
        let Guest::Benchmark(options) = &observed.step.guest else { return None };
        let (physical, logical) = sent(&observed.result.console, warmup(options)?);
        let all = (physical + logical) as f64;
        let spins = options.split_ascii_whitespace().any(|word| word == "targets=spinning");
        let (expected, rule) = expected(observed, spins, logical as f64 / all);
        (physical + logical > 0).then(|| Self {
            is_on: observed.step.arm.setting.is_on(),
            side: observed.step.arm.side().to_owned(),
            physical,
            logical,
            exits: exits as f64 / all,
            expected: expected.filter(|_| !is_inhibited),
            rule,
        })
    }

    /// Whether there are as many as expected.
    pub fn is_as_expected(&self) -> bool {
        self.expected.is_none_or(|(least, most)| {
            self.exits >= least && most.is_none_or(|most| self.exits <= most)
        })
    }

    /// For readers.
    pub(crate) fn sentence(&self) -> String {
        let (physical, logical) = (grouped(self.physical), grouped(self.logical));
        let sent = format!("{physical} sent with a physical, {logical} with a logical destination");
        let found = format!("{}: {:.2} exits per IPI, {sent}", self.side, self.exits);
        match (self.expected, self.is_as_expected()) {
            (None, _) => found,
            (Some(_), true) => format!("{found}, as expected: {}", self.rule),
            (Some(_), false) => format!("{found}, which is not as expected: {}", self.rule),
        }
    }
}

/// Turns before what is measured, as the benchmark was told.
fn warmup(options: &str) -> Option<u64> {
    let words = options.split_ascii_whitespace();
    words.filter_map(|word| word.strip_prefix("warmup=")).next()?.parse().ok()
}

/// IPIs with a physical and with a logical destination, by the guest's own records. A round trip is
/// two; what is acknowledged are those that are measured one way.
fn sent(console: &[String], warmup: u64) -> (u64, u64) {
    let (mut physical, mut logical) = (0, 0);
    for record in console.iter().filter_map(|line| serde_json::from_str::<Json>(line).ok()) {
        let ipis = match record["test"].as_str() {
            Some("ipi_one_way") => 1,
            Some("ipi_round_trip") => 2,
            _ => continue,
        };
        let count = ipis * (record["samples"].as_u64().unwrap_or(0) + warmup);
        let is_physical = record["destination"].as_str() == Some("physical");
        *(if is_physical { &mut physical } else { &mut logical }) += count;
    }
    (physical, logical)
}

/// `logical` is the share of IPIs with a logical destination.
fn expected(
    observed: &Observed,
    spins: bool,
    logical: f64,
) -> (Option<(f64, Option<f64>)>, &'static str) {
    let is_on = |name: &str| {
        let shown = &observed.result.parameters;
        shown.iter().any(|one| one.name == name && ["Y", "1"].contains(&one.value.as_str()))
    };
    if observed.step.arm.isa() != Isa::Vmx {
        return (None, "");
    }
    if !is_on("enable_apicv") {
        return match spins {
            true => (Some((LEAST_WITHOUT, None)), "three or more without APICv"),
            false => (Some((LEAST_TO_HALTED, None)), "two or more without APICv to who may halt"),
        };
    }
    if !is_on("enable_ipiv") {
        return (Some((1.0, Some(1.0 + OTHER))), "one with APICv alone, to send");
    }
    let rule = "none where the destination is physical, which IPI virtualization sends, and one \
                where it is logical";
    (Some((logical, Some(logical + OTHER))), rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipis_are_counted_by_destination_and_warm_up_turns_are_some() {
        let record = |test: &str, destination: &str| {
            format!(
                "{{\"record\":\"latency\",\"test\":\"{test}\",\"destination\":\"{destination}\",\
                 \"samples\":500}}"
            )
        };
        let mut console = vec!["Linux".to_owned()];
        for destination in ["physical", "cluster"] {
            for test in ["ipi_one_way", "ipi_acknowledged", "ipi_round_trip"] {
                console.push(record(test, destination));
            }
        }
        console.push(record("timer", ""));
        assert_eq!(sent(&console, 50), (1650, 1650));
        assert_eq!(warmup("tests=ipi warmup=50"), Some(50));
        assert_eq!(warmup("tests=timer"), None);
    }

    #[test]
    fn what_is_not_as_expected_says_so() {
        let found = |exits, expected| ExitsPerIpi {
            is_on: true,
            side: "on".into(),
            physical: 100,
            logical: 100,
            exits,
            expected,
            rule: "one with APICv alone, to send",
        };
        for (exits, expected, holds) in [
            (1.03, Some((1.0, Some(1.1))), true),
            (0.99, Some((1.0, Some(1.1))), false),
            (2.0, Some((1.0, Some(1.1))), false),
            (4.0, Some((3.0, None)), true),
            (2.9, Some((3.0, None)), false),
            (0.03, None, true),
        ] {
            let one = found(exits, expected);
            assert_eq!(one.is_as_expected(), holds, "{exits} {expected:?}");
            assert_eq!(one.sentence().contains("not as expected"), !holds, "{}", one.sentence());
        }
    }
}

//! What becomes of each machine's interrupts, in every form.

mod text;

pub use text::{lines, text};

use crate::nagios;
use crate::prometheus::{Kind, Metrics, number};
use rules::finding::Answer;
use rules::inhibit::Reason;
use rules::why::{Machine, Why};

/// What a machine is called in every output: its name, or its process.
pub fn name(machine: &Machine) -> String {
    machine.name.clone().unwrap_or_else(|| format!("pid {}", machine.pid))
}

/// What inhibits a machine for long: seen, or predicted from its configuration.
pub fn inhibits(machine: &Machine) -> Vec<Reason> {
    let seen = machine.observation.iter().flat_map(|seen| &seen.reasons).map(|(reason, _)| *reason);
    let predicted =
        machine.causes.iter().filter(|cause| cause.lasts).map(|cause| cause.inhibit.reason);
    let mut reasons: Vec<_> = seen.chain(predicted).collect();
    reasons.sort_unstable();
    reasons.dedup();
    reasons
}

/// Every machine as metrics.
pub fn metrics(why: &Why, metrics: &mut Metrics) {
    let active = "avicenna_apicv_active";
    metrics.family(
        active,
        Kind::Gauge,
        "Whether a virtual machine uses AVIC or APICv: 1 yes, 0 no, NaN not known.",
    );
    for machine in &why.machines {
        let (name, pid) = (name(machine), machine.pid.to_string());
        let labels = [("vm", name.as_str()), ("pid", pid.as_str())];
        metrics.sample(active, &labels, number(machine.active.answer));
    }
    let inhibit = "avicenna_apicv_inhibit";
    metrics.family(
        inhibit,
        Kind::Gauge,
        "1 for each reason that takes AVIC or APICv from a virtual machine for long: seen, or predicted from its \
         configuration.",
    );
    for machine in &why.machines {
        let (name, pid) = (name(machine), machine.pid.to_string());
        for reason in inhibits(machine) {
            let labels = [("vm", name.as_str()), ("pid", pid.as_str()), ("reason", reason.name())];
            metrics.sample(inhibit, &labels, 1);
        }
    }
    let seconds = "avicenna_apicv_inhibit_seconds";
    metrics.family(
        seconds,
        Kind::Gauge,
        "For how long each reason was set while the virtual machine was watched.",
    );
    let watched = "avicenna_apicv_watched_seconds";
    for machine in &why.machines {
        let (name, pid) = (name(machine), machine.pid.to_string());
        for (reason, set) in machine.observation.iter().flat_map(|seen| &seen.reasons) {
            let labels = [("vm", name.as_str()), ("pid", pid.as_str()), ("reason", reason.name())];
            metrics.sample(seconds, &labels, set);
        }
    }
    metrics.family(watched, Kind::Gauge, "For how long a virtual machine was watched.");
    for machine in &why.machines {
        let (name, pid) = (name(machine), machine.pid.to_string());
        if let Some(seen) = &machine.observation {
            metrics.sample(watched, &[("vm", &name), ("pid", &pid)], seen.seconds);
        }
    }
}

/// The metrics of `why` alone, made at so many seconds since 1970.
pub fn prometheus(why: &Why, seconds: u64) -> String {
    let mut all = Metrics::default();
    metrics(why, &mut all);
    all.finish("why", seconds)
}

/// How many machines use the feature, and those that do not.
pub fn said(why: &Why) -> String {
    let count = |answer| why.machines.iter().filter(|one| one.active.answer == answer).count();
    let all = why.machines.len();
    let mut text = format!("{} of {all} virtual machines use {}", count(Answer::Yes), why.feature);
    for machine in why.machines.iter().filter(|one| one.active.answer != Answer::Yes) {
        text.push_str(&format!("; {}: {}", name(machine), machine.active.reason));
    }
    text
}

/// The same on a plugin's line.
pub fn nagios(why: &Why) -> String {
    let count = |answer| why.machines.iter().filter(|one| one.active.answer == answer).count();
    let figures = format!(
        "active={} inactive={} unknown={}",
        count(Answer::Yes),
        count(Answer::No),
        count(Answer::Unknown)
    );
    nagios::line(why.verdict(), &said(why), &figures)
}

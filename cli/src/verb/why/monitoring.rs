//! What becomes of each machine's interrupts, for monitoring.

use crate::verb::metrics::{self, Metrics};
use rules::Answer;
use rules::why::{Machine, Why};

fn name(machine: &Machine) -> String {
    machine.name.clone().unwrap_or_else(|| format!("pid {}", machine.pid))
}

pub fn prometheus(why: &Why) -> String {
    let mut metrics = Metrics::default();
    let active = "avicenna_apicv_active";
    metrics.family(
        active,
        "Whether a virtual machine uses AVIC or APICv: 1 yes, 0 no, NaN not known.",
    );
    for machine in &why.machines {
        let (name, pid) = (name(machine), machine.pid.to_string());
        let labels = [("vm", name.as_str()), ("pid", pid.as_str())];
        metrics.sample(active, &labels, metrics::number(machine.active.answer));
    }
    let inhibit = "avicenna_apicv_inhibit";
    metrics.family(
        inhibit,
        "1 for each reason that takes AVIC or APICv from a virtual machine for long: seen, or predicted from its \
         configuration.",
    );
    for machine in &why.machines {
        let (name, pid) = (name(machine), machine.pid.to_string());
        let seen =
            machine.observation.iter().flat_map(|seen| &seen.reasons).map(|(reason, _)| *reason);
        let predicted =
            machine.causes.iter().filter(|cause| cause.lasts).map(|cause| cause.inhibit.reason);
        let mut reasons: Vec<_> = seen.chain(predicted).collect();
        reasons.sort_unstable();
        reasons.dedup();
        for reason in reasons {
            let labels = [("vm", name.as_str()), ("pid", pid.as_str()), ("reason", reason.name())];
            metrics.sample(inhibit, &labels, 1);
        }
    }
    metrics.finish("why")
}

pub fn nagios(why: &Why) -> String {
    let count = |answer| why.machines.iter().filter(|one| one.active.answer == answer).count();
    let without: Vec<String> = why
        .machines
        .iter()
        .filter(|machine| machine.active.answer != Answer::Yes)
        .map(|machine| format!("{}: {}", name(machine), machine.active.reason))
        .collect();
    let all = why.machines.len();
    let mut text = format!("{} of {all} virtual machines use {}", count(Answer::Yes), why.feature);
    for one in without {
        text.push_str(&format!("; {one}"));
    }
    let figures = format!(
        "active={} inactive={} unknown={}",
        count(Answer::Yes),
        count(Answer::No),
        count(Answer::Unknown)
    );
    metrics::nagios(why.verdict(), &text, &figures)
}

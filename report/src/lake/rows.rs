//! Results into rows.

use super::schema::{EXIT_TIMES, EXITS, FINDINGS, HOSTS, INHIBITS, OUTCOMES, TRIALS, VMS};
use super::{Cell, Identity, Lake};
use crate::exits::machine::Recording;
use crate::result::{Outcome, Trial};
use crate::why::name;
use reading::Facts;
use rules::capability::Report;
use rules::finding::{Finding, Fix};
use rules::why::{Machine, Why};
use trace::exit_reason::Isa;

/// What is known of a host.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    /// What was read.
    pub facts: &'a Facts,
    /// What the rules say to it.
    pub report: &'a Report,
    /// Of its virtual machines, where they are known.
    pub why: Option<&'a Why>,
}

fn line(fix: Option<&Fix>) -> [Cell; 2] {
    [Cell::from(fix.map(|fix| fix.line.as_str())), Cell::from(fix.map(|fix| fix.needs.to_string()))]
}

/// Everything that `check` and `why` say of a host.
pub fn host(host: &Host<'_>, identity: &Identity, lake: &mut Lake) {
    summary(host, identity, lake);
    for row in host.report.answers.iter().chain(&host.report.findings) {
        finding(row, identity, lake);
    }
    for machine in host.why.iter().flat_map(|why| &why.machines) {
        vm(machine, identity, lake);
    }
}

fn summary(host: &Host<'_>, identity: &Identity, lake: &mut Lake) {
    let (facts, report) = (host.facts, host.report);
    let cpu = facts.cpus.first();
    let signature = cpu.and_then(|cpu| cpu.signature);
    let number = |value: Option<u32>| Cell::from(value.map(u64::from));
    let distribution = facts.distribution.get().map(|fields| {
        let field = |key: &str| fields.get(key).map_or("", String::as_str);
        format!("{} {}", field("ID"), field("VERSION_ID")).trim().to_owned()
    });
    let answer = |at: usize| Cell::from(report.answers.get(at).map(|row| row.answer));
    let change = report.summary.change.as_ref();
    let lines = change.map(|change| {
        change.fixes.iter().map(|fix| fix.line.as_str()).collect::<Vec<_>>().join("; and ")
    });
    let problems = report.findings.iter().filter(|row| row.is_problem()).count() as u64;
    let own = [
        Cell::from(cpu.and_then(|cpu| cpu.vendor.as_ref()).map(ToString::to_string)),
        number(signature.map(|one| one.family)),
        number(signature.map(|one| one.model)),
        number(signature.map(|one| one.stepping)),
        Cell::from(cpu.and_then(|cpu| cpu.brand.as_deref())),
        Cell::from(distribution),
        Cell::from(host.why.map(|why| why.feature)),
        Cell::from(report.summary.hardware.answer),
        answer(0),
        answer(1),
        answer(2),
        Cell::from(report.summary.state.text.as_str()),
        Cell::from(lines),
        Cell::from(change.map(|change| change.needs.to_string())),
        Cell::from(problems),
        Cell::from(facts.vms.get().map(|vms| vms.len() as u64)),
    ];
    lake.push(&HOSTS, identity, None, own);
}

fn finding(row: &Finding, identity: &Identity, lake: &mut Lake) {
    let [fix, needs] = line(row.fix.as_ref());
    let own = [
        Cell::from(row.id.as_str()),
        Cell::from(row.subject.as_str()),
        Cell::from(row.answer),
        Cell::from(row.severity.to_string()),
        Cell::from(row.reason.as_str()),
        Cell::from(row.follows.as_deref()),
        fix,
        needs,
    ];
    lake.push(&FINDINGS, identity, None, own);
}

fn vm(machine: &Machine, identity: &Identity, lake: &mut Lake) {
    let vm = name(machine);
    let pid = || Cell::from(u64::from(machine.pid));
    let seen = machine.observation.as_ref();
    let [fix, needs] = line(machine.active.fix.as_ref());
    let own = [
        pid(),
        Cell::from(machine.vmm),
        Cell::from(machine.active.answer),
        Cell::from(machine.active.reason.as_str()),
        Cell::from(machine.devices.as_ref().map(|row| row.answer)),
        fix,
        needs,
        Cell::from(seen.map(|seen| seen.seconds)),
        Cell::from(seen.and_then(|seen| seen.active_share())),
        Cell::from(seen.map(|seen| seen.changes)),
    ];
    lake.push(&VMS, identity, Some(&vm), own);
    for cause in machine.causes.iter().filter(|cause| cause.lasts) {
        let [fix, needs] = line(cause.fix.as_ref());
        let certainty = format!("{:?}", cause.inhibit.certainty).to_lowercase();
        let own = [
            pid(),
            Cell::from(cause.inhibit.reason.name()),
            Cell::from("predicted"),
            Cell::from(cause.inhibit.because.to_string()),
            Cell::from(certainty),
            fix,
            needs,
            Cell::Missing,
            Cell::Missing,
            Cell::Missing,
        ];
        lake.push(&INHIBITS, identity, Some(&vm), own);
    }
    for (reason, seconds) in seen.iter().flat_map(|seen| &seen.reasons) {
        let cause = machine.causes.iter().find(|cause| cause.inhibit.reason == *reason);
        let [fix, needs] = line(cause.and_then(|cause| cause.fix.as_ref()));
        let own = [
            pid(),
            Cell::from(reason.name()),
            Cell::from("seen"),
            Cell::from(cause.map(|cause| cause.inhibit.because.to_string())),
            Cell::Missing,
            fix,
            needs,
            Cell::from(*seconds),
            Cell::from(seen.map(|seen| seen.seconds)),
            Cell::from(seen.map(|seen| seen.changes)),
        ];
        lake.push(&INHIBITS, identity, Some(&vm), own);
    }
}

/// The exits and inhibits of a recording.
pub fn exits(recording: &Recording, identity: &Identity, lake: &mut Lake) {
    for machine in &recording.machines {
        let (summary, vm) = (&machine.summary, Some(machine.name.as_str()));
        let pid = || Cell::from(u64::from(machine.process));
        let isa = summary.isa.map(|isa| match isa {
            Isa::Svm => "SVM",
            Isa::Vmx => "VMX",
        });
        for row in &summary.detailed.rows {
            let verdict = match row.verdict {
                _ if row.is_idle => Some("idle"),
                verdict => verdict.map(|verdict| verdict.name()),
            };
            let own = [
                pid(),
                Cell::from(machine.vcpus),
                Cell::from(summary.seconds),
                Cell::from(isa),
                Cell::from(row.name.as_str()),
                Cell::from(Some(row.about.as_str()).filter(|about| !about.is_empty())),
                Cell::from(row.count),
                Cell::from(row.time_ns),
                Cell::from(row.min_ns),
                Cell::from(row.max_ns),
                Cell::from(row.p50_ns),
                Cell::from(row.p99_ns),
                Cell::from(verdict),
                Cell::from(Some(row.feature.as_str()).filter(|feature| !feature.is_empty())),
                Cell::from(recording.file.as_str()),
            ];
            lake.push(&EXITS, identity, vm, own);
            for (least_ns, count) in row.histogram.iter().filter(|octave| octave.1 > 0) {
                let own = [
                    pid(),
                    Cell::from(row.name.as_str()),
                    Cell::from(Some(row.about.as_str()).filter(|about| !about.is_empty())),
                    Cell::from(*least_ns),
                    Cell::from(*count),
                ];
                lake.push(&EXIT_TIMES, identity, vm, own);
            }
        }
        inhibits_of(machine.process, summary, vm, identity, lake);
    }
}

fn inhibits_of(
    process: u32,
    summary: &profile::Summary,
    vm: Option<&str>,
    identity: &Identity,
    lake: &mut Lake,
) {
    let machines = summary.inhibits.iter().flat_map(|inhibits| &inhibits.machines);
    for machine in machines.filter(|machine| machine.process == process) {
        let watched = machine.to_ns.saturating_sub(machine.from_ns) as f64 / 1e9;
        for reason in &machine.reasons {
            let own = [
                Cell::from(u64::from(process)),
                Cell::from(reason.name.as_str()),
                Cell::from("seen"),
                Cell::from(reason.cause),
                Cell::Missing,
                Cell::Missing,
                Cell::Missing,
                Cell::from(reason.seconds),
                Cell::from(watched),
                Cell::from(reason.times_set + reason.times_cleared),
            ];
            lake.push(&INHIBITS, identity, vm, own);
        }
    }
}

/// Figures of trials.
pub fn trials(trials: &[Trial], identity: &Identity, lake: &mut Lake) {
    for trial in trials {
        let identity = Identity { seed: trial.seed.or(identity.seed), ..identity.clone() };
        let own = [
            Cell::from(trial.experiment.as_str()),
            Cell::from(trial.plan.as_deref()),
            Cell::from(trial.workload.as_str()),
            Cell::from(trial.arm.as_str()),
            Cell::from(trial.block),
            Cell::from(trial.metric.as_str()),
            Cell::from(trial.unit.as_deref()),
            Cell::from(trial.value),
            Cell::from(trial.void.as_deref()),
        ];
        lake.push(&TRIALS, &identity, trial.vm.as_deref(), own);
    }
}

/// What experiments found.
pub fn outcomes(outcomes: &[Outcome], identity: &Identity, lake: &mut Lake) {
    for outcome in outcomes {
        let own = [
            Cell::from(outcome.experiment.as_str()),
            Cell::from(outcome.plan.as_deref()),
            Cell::from(outcome.workload.as_str()),
            Cell::from(outcome.metric.as_str()),
            Cell::from(outcome.verdict.as_str()),
            Cell::from(outcome.effect_percent),
            Cell::from(outcome.interval_percent.map(|interval| interval.0)),
            Cell::from(outcome.interval_percent.map(|interval| interval.1)),
            Cell::from(outcome.blocks),
            Cell::from(outcome.voids),
        ];
        lake.push(&OUTCOMES, identity, None, own);
    }
}

//! The lab without a distribution's kernel: the reference hypervisor on the emulated machine, on
//! any system and without a network.

use super::effort::Effort;
use super::jobs;
use crate::comparison::{self, Agreement, Comparison, ExitRow, Scope, hardware};
use crate::drive::Drive;
use crate::drive::counters::{Reason, Tally};
use crate::host::Host;
use crate::plan::{Arm, Experiment, Setting};
use crate::watch::Watch;
use crate::workload::figure::{Figure, of_benchmark};
use crate::workload::found::Findings;
use crate::workload::{self, Workload};
use anyhow::Context;
use arch::time::Picoseconds;
use board::load::Source;
use board::{Configuration, Images, Machine, Outcome};
use rules::feature::Feature;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use trace::exit_reason::Isa;

/// One run of the hypervisor.
struct Run {
    tally: Tally,
    /// The hypervisor's own counts, by name.
    own: BTreeMap<String, u64>,
    figures: Vec<Figure>,
    troubles: Vec<String>,
}

/// What the hypervisor is given.
#[derive(Clone, Copy)]
pub struct Guests<'a> {
    /// vCPUs of the guest.
    pub vcpus: u16,
    /// One that is the benchmark's.
    pub workload: &'a dyn Workload,
    /// Seconds of virtual time for each.
    pub limit: u64,
}

/// Whether the hypervisor can do what is asked for.
pub(crate) fn check(workload: &dyn Workload, experiment: &Experiment) -> anyhow::Result<()> {
    anyhow::ensure!(
        workload.benchmark().is_some(),
        "the built-in hypervisor runs the workloads {}; the others and commands need a \
         distribution's kernel",
        workload::names(|one| one.benchmark().is_some()).join(", ")
    );
    let base = Feature::of_vendor(experiment.vendor());
    anyhow::ensure!(
        experiment.features.contains(&base)
            && experiment.kept_off.is_empty()
            && experiment.own.is_none(),
        "the built-in hypervisor has {base} off or on: other features need a distribution's kernel"
    );
    Ok(())
}

/// Runs a workload of bare metal in both APIC modes.
pub fn compare(
    host: &Host,
    guests: Guests<'_>,
    experiment: &Experiment,
    jobs: usize,
    watch: &mut Watch<'_>,
) -> anyhow::Result<(Vec<Comparison>, Effort)> {
    check(guests.workload, experiment)?;
    let tests = guests.workload.benchmark().unwrap_or_default();
    let arms = experiment.arms();
    let modes = [("xAPIC", "xapic"), ("x2APIC", "x2apic")].into_iter();
    let parts: Vec<_> = modes.flat_map(|mode| arms.iter().map(move |arm| (mode, arm))).collect();
    let work = |(): &mut (), part: &((&str, &str), &Arm), watch: &mut Watch<'_>| {
        let ((name, apic), arm) = *part;
        watch.stage(&format!("{name}, {}", arm.label));
        let guest: Vec<String> = format!("output=memory apic={apic} {tests}")
            .split(' ')
            .map(|word| format!("guest.{word}"))
            .collect();
        let (setting, vcpus) = (arm.setting, guests.vcpus);
        let hardware = experiment.inhibited_name().to_lowercase();
        let options = format!("{hardware}={setting} vcpus={vcpus} {}", guest.join(" "));
        run(host, &options, guests.limit, watch)
    };
    if jobs > 1 {
        watch.stage(&format!("{}: {} parts, {jobs} at once", guests.workload.title(), parts.len()));
    }
    let done = jobs::all(&parts, jobs, &work, watch)?;
    let effort = Effort::together(done.iter().map(|(_, effort)| *effort));
    let mut sides: Vec<(&str, Option<Run>, Option<Run>)> = Vec::new();
    for (((name, _), arm), (run, _)) in parts.into_iter().zip(done) {
        if sides.last().is_none_or(|(last, ..)| *last != name) {
            sides.push((name, None, None));
        }
        if let Some((_, off, on)) = sides.last_mut() {
            *(if arm.setting.is_on() { on } else { off }) = Some(run);
        }
    }
    let comparisons = sides.into_iter().map(|(name, off, on)| side_by_side(name, off, on));
    Ok((comparisons.collect(), effort))
}

fn run(
    host: &Host,
    options: &str,
    limit: u64,
    watch: &mut Watch<'_>,
) -> anyhow::Result<(Run, Effort)> {
    let mut machine = Machine::new(&Configuration {
        costs: host.costs.clone(),
        iommu: host.iommu,
        functions: host.functions(),
        ..Configuration::of(host.model.clone(), host.topology, host.memory)
    })?;
    machine.load(&Images {
        kernel: Source::of("hypervisor", image::HYPERVISOR),
        initrd: None,
        modules: &[],
        command_line: options,
    })?;
    let mut drive = Drive::new(machine);
    drive.count();
    let limit = Picoseconds::from_milliseconds(limit.saturating_mul(1000));
    let outcome = loop {
        if let Some(outcome) = drive.slice(limit, watch).context("the built-in hypervisor")? {
            break outcome;
        }
    };
    let effort = Effort {
        instructions: drive.machine.instructions(),
        time: drive.machine.state.now,
        trace_hash: drive.machine.state.wiring.recorder.hash.value(),
    };
    let mut run = read(&drive.console(), drive.counters.all().clone());
    if outcome != Outcome::DebugExit(0) {
        run.troubles.push(format!("the hypervisor ended with {outcome:?}"));
    }
    Ok((run, effort))
}

/// The hypervisor's records.
fn read(text: &str, tally: Tally) -> Run {
    let isa = tally.exits.keys().next().map_or(Isa::Svm, |reason| reason.isa);
    let mut run = Run { tally, own: BTreeMap::new(), figures: Vec::new(), troubles: Vec::new() };
    for record in text.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok()) {
        match record["record"].as_str().unwrap_or_default() {
            "exit" => {
                let name = known_name(isa, record["reason"].as_str().unwrap_or_default());
                run.own.insert(name, record["count"].as_u64().unwrap_or(0));
            }
            "guest" => run.figures.extend(of_benchmark(&record["output"])),
            "unavailable" | "failure" => run.troubles.push(record.to_string()),
            _ => {}
        }
    }
    run
}

/// Reasons of VMX that the hypervisor calls as it does those of SVM, and KVM's names for them.
const VMX_NAMES: [(&str, &str); 4] = [
    ("interrupt", "EXTERNAL_INTERRUPT"),
    ("io", "IO_INSTRUCTION"),
    ("pause", "PAUSE_INSTRUCTION"),
    ("hypercall", "VMCALL"),
];

/// The hypervisor's name of a reason as KVM's tracepoints spell it.
fn known_name(isa: Isa, name: &str) -> String {
    let renamed = VMX_NAMES.iter().find(|(own, _)| isa == Isa::Vmx && *own == name);
    let name = renamed.map_or(name, |(_, known)| known);
    let known = isa.reason_named(name).and_then(|code| isa.reason_name(code));
    known.unwrap_or(name).to_owned()
}

fn side_by_side(name: &str, off: Option<Run>, on: Option<Run>) -> Comparison {
    let tallies = [&off, &on].into_iter().flatten();
    let reasons = tallies.flat_map(|run| run.tally.exits.keys().copied());
    let reasons: std::collections::BTreeSet<Reason> = reasons.collect();
    let count = |run: &Option<Run>, reason: Reason| {
        run.as_ref().map(|run| run.tally.exits.get(&reason).copied().unwrap_or_default())
    };
    let isa = reasons.first().map(|reason| reason.isa);
    let mut exits: Vec<ExitRow> = reasons
        .into_iter()
        .map(|reason| ExitRow::new(reason, count(&off, reason), count(&on, reason)))
        .collect();
    exits.sort_by_key(|row| std::cmp::Reverse(row.off.or(row.on).map_or(0, |count| count.exits)));
    let both = [(Setting::Off, &off), (Setting::On, &on)];
    let both = both.into_iter();
    let agreement =
        both.filter_map(|(setting, run)| Some(agreement(setting, run.as_ref()?))).collect();
    let troubles = [&off, &on].into_iter().flatten().flat_map(|run| run.troubles.clone()).collect();
    let figures = |run: Option<Run>| run.map(|run| run.figures);
    Comparison {
        name: name.into(),
        hardware: isa.map_or("", hardware),
        scope: Scope::Life,
        exits,
        agreement,
        between: Vec::new(),
        exits_per_ipi: Vec::new(),
        examples: Vec::new(),
        found: Findings::default(),
        troubles,
        lost: Vec::new(),
        measures: comparison::side_by_side(figures(off), figures(on)),
        inhibited: None,
        inhibits: Vec::new(),
        inhibit_history: None,
        incomplete: Vec::new(),
        unaccelerated: Vec::new(),
        left_incomplete: Vec::new(),
        left_unaccelerated: Vec::new(),
        breakdown: Vec::new(),
        doorbells: None,
        parameter: None,
    }
}

/// The hypervisor's count stands where KVM's tracepoints are otherwise.
fn agreement(setting: Setting, run: &Run) -> Agreement {
    let machine: BTreeMap<String, u64> =
        run.tally.exits.iter().map(|(reason, count)| (reason.name(), count.exits)).collect();
    let names: std::collections::BTreeSet<&String> = machine.keys().chain(run.own.keys()).collect();
    let pair = |name: &String| {
        let of = |counts: &BTreeMap<String, u64>| counts.get(name).copied().unwrap_or(0);
        (name.clone(), of(&run.own), of(&machine))
    };
    Agreement {
        setting,
        counted_by: "the hypervisor",
        software: run.own.values().sum(),
        machine: machine.values().sum(),
        differences: names.into_iter().map(pair).filter(|(_, own, all)| own != all).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hypervisors_names_are_told_as_kvm_tells_them() {
        for (isa, own, known) in [
            (Isa::Svm, "interrupt", "interrupt"),
            (Isa::Svm, "npf", "npf"),
            (Isa::Vmx, "interrupt", "EXTERNAL_INTERRUPT"),
            (Isa::Vmx, "io", "IO_INSTRUCTION"),
            (Isa::Vmx, "ept_violation", "EPT_VIOLATION"),
            (Isa::Vmx, "apic_write", "APIC_WRITE"),
            (Isa::Vmx, "other", "other"),
        ] {
            assert_eq!(known_name(isa, own), known);
        }
    }
}

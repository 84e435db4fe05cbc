//! Results side by side: the same virtual machine with the feature off and on.

use crate::counters::Count;
use crate::session::Observed;
use bench::Outcome;
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use trace::exit_reason::Isa;

/// [APM2 "SVM Intercept Codes"]
const HLT: u64 = trace::exit_reason::svm::HLT as u64;

/// Exits of one reason, off and on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExitRow {
    pub code: u64,
    pub name: String,
    pub off: Option<Count>,
    pub on: Option<Count>,
}

/// A figure that the guest measured, off and on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    pub name: String,
    pub unit: &'static str,
    pub off: Option<f64>,
    pub on: Option<f64>,
}

/// Whether the hypervisor's software and the machine counted the same exits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Agreement {
    pub is_on: bool,
    /// Who counted besides the machine, for people.
    pub counted_by: &'static str,
    /// That count: KVM's tracepoints, or the reference hypervisor's own.
    pub software: u64,
    pub machine: u64,
    /// Exit codes whose counts differ: name, software, machine.
    pub differences: Vec<(String, u64, u64)>,
}

/// One virtual machine, off and on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// xAPIC or x2APIC.
    pub name: String,
    pub exits: Vec<ExitRow>,
    pub measures: Vec<Measure>,
    pub agreement: Vec<Agreement>,
    /// Seconds that the virtual machine ran with the feature on, and those of them during which
    /// KVM inhibited it.
    pub inhibited: Option<(f64, f64)>,
    /// Inhibits as KVM traced them, with the feature on: seconds, text.
    pub inhibits: Vec<(f64, String)>,
    /// Reasons of `kvm_avic_incomplete_ipi` and registers of `kvm_avic_unaccelerated_access`.
    pub incomplete: BTreeMap<u64, u64>,
    pub unaccelerated: BTreeMap<u64, u64>,
    pub doorbells: Option<u64>,
    /// What the module's parameter said with the feature on.
    pub parameter: Option<String>,
    /// Warnings of the host's kernel, and virtual machines that did not end as they should.
    pub troubles: Vec<String>,
}

impl Comparison {
    pub fn exits_off(&self) -> Option<u64> {
        total(self.exits.iter().map(|row| row.off))
    }

    pub fn exits_on(&self) -> Option<u64> {
        total(self.exits.iter().map(|row| row.on))
    }

    /// Exits but HLT: waiting is no work, and AVIC does not change how often a guest waits.
    pub fn work(&self) -> (Option<u64>, Option<u64>) {
        let working = || self.exits.iter().filter(|row| row.code != HLT);
        (total(working().map(|row| row.off)), total(working().map(|row| row.on)))
    }

    /// Change of the number of exits, in percent.
    pub fn change(&self) -> Option<f64> {
        let (off, on) = (self.exits_off()? as f64, self.exits_on()? as f64);
        (off > 0.0).then(|| (on - off) / off * 100.0)
    }
}

/// Seconds with any inhibit set, of `seconds` that begin with the first event.
fn inhibited(events: &[(f64, String)], seconds: f64) -> f64 {
    let Some((start, _)) = events.first() else { return 0.0 };
    let is_set = |text: &str| {
        let mask = text.split("inhibits=0x").nth(1).unwrap_or("0");
        mask.split(' ').next().is_some_and(|mask| !mask.trim_start_matches('0').is_empty())
    };
    let ends = events.iter().skip(1).map(|(at, _)| *at).chain([start + seconds]);
    let stretches = events.iter().zip(ends).filter(|((_, text), _)| is_set(text));
    stretches.map(|((at, _), end)| (end - at).max(0.0)).sum()
}

fn total(counts: impl Iterator<Item = Option<Count>>) -> Option<u64> {
    let counts: Vec<Count> = counts.flatten().collect();
    (!counts.is_empty()).then(|| counts.iter().map(|count| count.exits).sum())
}

/// Puts what was observed side by side, a comparison per name of steps.
pub fn compare(observed: &[Observed]) -> Vec<Comparison> {
    let mut names: Vec<&str> = Vec::new();
    for one in observed {
        if !names.contains(&one.step.name.as_str()) {
            names.push(&one.step.name);
        }
    }
    names.into_iter().map(|name| comparison(name, observed)).collect()
}

fn comparison(name: &str, observed: &[Observed]) -> Comparison {
    let of = |is_on: bool, is_traced: bool| {
        observed.iter().find(|one| {
            one.step.name == name && one.step.is_on == is_on && one.step.is_traced == is_traced
        })
    };
    let (off, on) = (of(false, true), of(true, true));
    let both = [off, on];
    let traced = both.into_iter().flatten();
    let on_points = on.and_then(|one| one.result.tracepoints.clone()).unwrap_or_default();
    let mine = observed.iter().filter(|one| one.step.name == name);
    Comparison {
        name: name.into(),
        exits: exit_rows(off, on),
        measures: measures(of(false, false).or(off), of(true, false).or(on)),
        agreement: traced.filter_map(agreement).collect(),
        inhibited: on
            .map(|one| (one.result.seconds, inhibited(&on_points.inhibits, one.result.seconds))),
        inhibits: on_points.inhibits,
        incomplete: on_points.incomplete,
        unaccelerated: on_points.unaccelerated,
        doorbells: on.map(|one| one.doorbells),
        parameter: on.map(|one| one.result.parameter.clone()),
        troubles: mine.flat_map(troubles).collect::<BTreeSet<_>>().into_iter().collect(),
    }
}

/// The name that KVM's tracepoints use.
pub fn exit_name(code: u64) -> String {
    let known = u32::try_from(code).ok().and_then(|code| Isa::Svm.reason_name(code));
    known.map_or_else(|| format!("{code:#x}"), str::to_owned)
}

/// Sorted by what the feature saves, or by count where there is one side only.
fn exit_rows(off: Option<&Observed>, on: Option<&Observed>) -> Vec<ExitRow> {
    let codes: BTreeSet<u64> =
        [off, on].into_iter().flatten().flat_map(|one| one.window.keys().copied()).collect();
    let count = |one: Option<&Observed>, code: u64| {
        one.map(|one| one.window.get(&code).copied().unwrap_or_default())
    };
    let row = |code: u64| ExitRow {
        code,
        name: exit_name(code),
        off: count(off, code),
        on: count(on, code),
    };
    let mut rows: Vec<ExitRow> = codes.into_iter().map(row).collect();
    let weight = |row: &ExitRow| row.off.or(row.on).map_or(0, |count| count.exits);
    rows.sort_by(|a, b| weight(b).cmp(&weight(a)).then(a.code.cmp(&b.code)));
    rows
}

fn agreement(one: &Observed) -> Option<Agreement> {
    let counted = &one.result.tracepoints.as_ref()?.exits;
    let codes: BTreeSet<u64> = counted.keys().chain(one.exits.keys()).copied().collect();
    let pair = |code: u64| {
        let machine = one.exits.get(&code).map_or(0, |count| count.exits);
        (exit_name(code), counted.get(&code).copied().unwrap_or(0), machine)
    };
    let pairs = codes.into_iter().map(pair);
    Some(Agreement {
        is_on: one.step.is_on,
        counted_by: "KVM's tracepoints",
        software: counted.values().sum(),
        machine: one.exits.values().map(|count| count.exits).sum(),
        differences: pairs.filter(|(_, traced, machine)| traced != machine).collect(),
    })
}

/// What would make a reader doubt the numbers.
fn troubles(one: &Observed) -> Vec<String> {
    let setting = if one.step.is_on { "on" } else { "off" };
    let ended = match &one.result.outcome {
        Outcome::DebugExit(0) | Outcome::PowerOff => None,
        other => Some(format!("the virtual machine ended with {other:?} (feature {setting})")),
    };
    let is_refused = one.step.is_on && !["Y", "1"].contains(&one.result.parameter.as_str());
    let refused = is_refused.then(|| {
        let parameter = &one.result.parameter;
        format!(
            "kvm_amd was asked for avic=1 and says {parameter}: this processor has no AVIC for it"
        )
    });
    let warnings = one.result.messages.iter().filter(|text| text.contains("WARNING"));
    ended.into_iter().chain(refused).chain(warnings.cloned()).collect()
}

/// The guest's records as figures: latencies by their median, throughputs, events.
fn measures(off: Option<&Observed>, on: Option<&Observed>) -> Vec<Measure> {
    side_by_side(off.map(figures), on.map(figures))
}

/// A figure of a guest: name, unit, value.
pub(crate) type Figure = (String, &'static str, f64);

pub(crate) fn side_by_side(off: Option<Vec<Figure>>, on: Option<Vec<Figure>>) -> Vec<Measure> {
    let mut names: Vec<(String, &'static str)> = Vec::new();
    for (name, unit, _) in [&off, &on].into_iter().flatten().flatten() {
        if !names.iter().any(|(known, _)| known == name) {
            names.push((name.clone(), unit));
        }
    }
    let value = |figures: &Option<Vec<Figure>>, name: &str| {
        figures.as_ref()?.iter().find(|figure| figure.0 == name).map(|figure| figure.2)
    };
    names
        .into_iter()
        .map(|(name, unit)| Measure { off: value(&off, &name), on: value(&on, &name), name, unit })
        .collect()
}

fn figures(one: &Observed) -> Vec<Figure> {
    let records = one.result.console.iter().filter_map(|line| {
        line.starts_with('{').then(|| serde_json::from_str::<Json>(line).ok()).flatten()
    });
    records.filter_map(|record| figure(&record)).collect()
}

/// The figure in one record of the benchmark or of a workload.
pub(crate) fn figure(record: &Json) -> Option<Figure> {
    let text = |key: &str| record[key].as_str().unwrap_or_default();
    let fence = if record["fence"].as_bool() == Some(true) { ", fence" } else { "" };
    let path = || format!("{} {}{fence}", text("test"), text("destination")).trim_end().to_owned();
    match text("record") {
        "latency" => Some((path(), "cycles", record["p50"].as_f64()?)),
        "throughput" => Some((path(), "messages/s", record["per_second"].as_f64()?)),
        "threads" => {
            let rate = record["events"].as_f64()? / record["seconds"].as_f64()?;
            Some(("threads".into(), "events/s", rate))
        }
        "command" => Some(("command".into(), "seconds", record["seconds"].as_f64()?)),
        _ => None,
    }
}

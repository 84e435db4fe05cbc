//! Results side by side: the same virtual machine with the feature off and on.

use crate::counters::Count;
use crate::inhibition;
use crate::protocol::Guest;
use crate::session::Observed;
use bench::Outcome;
use profile::inhibit::Inhibits;
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use trace::exit_reason::Isa;

/// [APM2 "SVM Intercept Codes"]
const HALTS: [u64; 2] =
    [trace::exit_reason::svm::HLT as u64, trace::exit_reason::svm::IDLE_HALT as u64];

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

/// Events of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// Reason or register, as the tracepoint gives it.
    pub number: u64,
    pub name: String,
    pub count: u64,
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
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
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
    /// The same as a time line.
    pub inhibit_history: Option<Inhibits>,
    /// Events of `kvm_avic_incomplete_ipi` by reason, with the feature on.
    pub incomplete: Vec<Counted>,
    /// Events of `kvm_avic_unaccelerated_access` by register.
    pub unaccelerated: Vec<Counted>,
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
        let working = || self.exits.iter().filter(|row| !HALTS.contains(&row.code));
        (total(working().map(|row| row.off)), total(working().map(|row| row.on)))
    }

    /// Change of the number of exits, in percent.
    pub fn change(&self) -> Option<f64> {
        let (off, on) = (self.exits_off()? as f64, self.exits_on()? as f64);
        (off > 0.0).then(|| (on - off) / off * 100.0)
    }
}

fn total(counts: impl Iterator<Item = Option<Count>>) -> Option<u64> {
    let counts: Vec<Count> = counts.flatten().collect();
    (!counts.is_empty()).then(|| counts.iter().map(|count| count.exits).sum())
}

/// Puts what was observed side by side, a comparison per name of steps. `release` is the kernel's.
pub fn compare(observed: &[Observed], release: &str) -> Vec<Comparison> {
    let mut names: Vec<&str> = Vec::new();
    for one in observed {
        if !names.contains(&one.step.name.as_str()) {
            names.push(&one.step.name);
        }
    }
    names.into_iter().map(|name| comparison(name, observed, release)).collect()
}

fn comparison(name: &str, observed: &[Observed], release: &str) -> Comparison {
    let of = |is_on: bool, is_traced: bool| {
        observed.iter().find(|one| {
            one.step.name == name && one.step.is_on == is_on && one.step.is_traced == is_traced
        })
    };
    let (off, on) = (of(false, true), of(true, true));
    let both = [off, on];
    let traced = both.into_iter().flatten();
    let on_points = on.and_then(|one| one.result.tracepoints.clone()).unwrap_or_default();
    let history = on.and_then(|one| inhibition::history(&on_points, one.result.seconds, release));
    let inhibited = history.as_ref().map_or(0.0, |all| all.machines[0].inhibited_seconds);
    let mine = observed.iter().filter(|one| one.step.name == name);
    Comparison {
        name: name.into(),
        exits: exit_rows(off, on),
        measures: measures(of(false, false).or(off), of(true, false).or(on)),
        agreement: traced.filter_map(agreement).collect(),
        inhibited: on.map(|one| (one.result.seconds, inhibited)),
        inhibit_history: history,
        inhibits: on_points.inhibits,
        incomplete: counted(&on_points.incomplete, |reason| {
            Some(profile::name::incomplete_ipi_cause(reason).into())
        }),
        unaccelerated: counted(&on_points.unaccelerated, |offset| {
            let offset = u16::try_from(offset).ok()?;
            profile::name::register_name(offset).map(Into::into)
        }),
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

/// The most frequent in front.
fn counted(counts: &BTreeMap<u64, u64>, name: impl Fn(u32) -> Option<String>) -> Vec<Counted> {
    let named = |number: u64| {
        let known = u32::try_from(number).ok().and_then(&name);
        known.unwrap_or_else(|| format!("{number:#x}"))
    };
    let counted = counts.iter();
    let mut rows: Vec<Counted> =
        counted.map(|(&number, &count)| Counted { number, name: named(number), count }).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.count));
    rows
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
    let unsaid = matches!(one.step.guest, Guest::Linux(_)) && figures(one).is_empty();
    let unsaid = unsaid.then(|| {
        let last = one.result.console.iter().rev().take(3).rev().cloned();
        format!(
            "the guest did not say how its workload ended (feature {setting}); its last lines: {}",
            last.collect::<Vec<_>>().join(" / ")
        )
    });
    let failed = one.result.console.iter().filter_map(|line| workload_failure(line));
    let warnings = one.result.messages.iter().filter(|text| text.contains("WARNING"));
    let all = ended.into_iter().chain(refused).chain(unsaid).chain(failed);
    all.chain(warnings.cloned()).collect()
}

/// A command of the guest that did not succeed.
fn workload_failure(line: &str) -> Option<String> {
    let record: Json = serde_json::from_str(line.strip_prefix('{').map(|_| line)?).ok()?;
    match (record["record"].as_str()?, record["status"].as_i64()) {
        ("command", Some(status)) if status != 0 => {
            Some(format!("the command in the guest ended with status {status}"))
        }
        ("failure", _) => Some(format!("the guest says: {line}")),
        _ => None,
    }
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

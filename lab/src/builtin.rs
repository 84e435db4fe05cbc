//! The lab without a distribution's kernel: the reference hypervisor on the emulated machine, on
//! any system and without a network.

use crate::comparison::{Agreement, Comparison, ExitRow, exit_name, figure};
use crate::counters::{Count, Counters};
use crate::host::Host;
use crate::workload::{Feature, Workload};
use anyhow::bail;
use arch::time::Picoseconds;
use board::load::Source;
use board::topology::Topology;
use board::{Configuration, Images, Limits, Machine, Outcome};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Virtual time between two looks at the machine.
const SLICE: Picoseconds = Picoseconds::from_milliseconds(5);
const LIMIT: Picoseconds = Picoseconds::from_milliseconds(60_000);

/// One run of the hypervisor.
struct Run {
    exits: BTreeMap<u64, Count>,
    /// The hypervisor's own counts, by name.
    own: BTreeMap<String, u64>,
    figures: Vec<(String, &'static str, f64)>,
    troubles: Vec<String>,
}

/// What all runs took together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effort {
    pub instructions: u64,
    pub time: Picoseconds,
    /// Of the last run.
    pub trace_hash: u64,
    /// Whether the host came from a snapshot.
    pub is_restored: bool,
}

/// Runs a workload of bare metal in both APIC modes.
pub fn compare(
    host: &Host,
    guest_cpus: u16,
    workload: &Workload,
    feature: Feature,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<(Vec<Comparison>, Effort)> {
    let Some(tests) = workload.benchmark_options() else {
        bail!(
            "the built-in hypervisor runs the workloads ipi, mesh and timer; threads and commands need a distribution's kernel"
        );
    };
    let mut effort = Effort::default();
    let mut comparisons = Vec::new();
    for (name, apic) in [("xAPIC", "xapic"), ("x2APIC", "x2apic")] {
        let mut sides = [None, None];
        for is_on in feature.settings() {
            let setting = if *is_on { "on" } else { "off" };
            progress(&format!("{name} AVIC {setting}"));
            let guest: Vec<String> = format!("output=memory apic={apic} {tests}")
                .split(' ')
                .map(|word| format!("guest.{word}"))
                .collect();
            let options = format!("avic={setting} vcpus={guest_cpus} {}", guest.join(" "));
            sides[usize::from(*is_on)] = Some(run(host, &options, stop, &mut effort)?);
        }
        let [off, on] = sides;
        comparisons.push(side_by_side(name, off, on));
    }
    Ok((comparisons, effort))
}

fn run(host: &Host, options: &str, stop: &AtomicBool, effort: &mut Effort) -> anyhow::Result<Run> {
    let mut machine = Machine::new(&Configuration {
        model: host.model.clone(),
        topology: Topology::of_cores(host.cpus)?,
        memory: host.memory,
        seed: 0,
        start: device::Date::default(),
        virtio: Vec::new(),
    })?;
    machine.load(&Images {
        kernel: Source { name: "hypervisor", bytes: image::HYPERVISOR },
        initrd: None,
        modules: &[],
        command_line: options,
    })?;
    machine.state.wiring.records = Some(Vec::new());
    let mut counters = Counters::default();
    let mut text = Vec::new();
    let outcome = loop {
        let until = machine.state.now.saturating_add(SLICE);
        let outcome = machine.run(Limits { until, instructions: u64::MAX });
        let records = machine.state.wiring.records.as_mut().map(std::mem::take);
        records.unwrap_or_default().iter().for_each(|record| counters.take(record));
        text.extend(machine.take_console().into_iter().filter(|(port, _)| *port == 0).map(|p| p.1));
        match outcome {
            Some(outcome) => break outcome,
            None if machine.state.now >= LIMIT => bail!("the hypervisor does not end"),
            None if stop.load(Ordering::Relaxed) => bail!("interrupted"),
            None => {}
        }
    };
    effort.instructions += machine.instructions();
    effort.time.0 += machine.state.now.0;
    effort.trace_hash = machine.state.wiring.hash.value();
    let mut run = read(&String::from_utf8_lossy(&text), counters.exits().clone());
    if outcome != Outcome::DebugExit(0) {
        run.troubles.push(format!("the hypervisor ended with {outcome:?}"));
    }
    Ok(run)
}

/// The hypervisor's records.
fn read(text: &str, exits: BTreeMap<u64, Count>) -> Run {
    let mut run = Run { exits, own: BTreeMap::new(), figures: Vec::new(), troubles: Vec::new() };
    for record in text.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok()) {
        match record["record"].as_str().unwrap_or_default() {
            "exit" => {
                let name = record["reason"].as_str().unwrap_or_default().to_owned();
                run.own.insert(name, record["count"].as_u64().unwrap_or(0));
            }
            "guest" => run.figures.extend(figure(&record["output"])),
            "unavailable" | "failure" => run.troubles.push(record.to_string()),
            _ => {}
        }
    }
    run
}

fn side_by_side(name: &str, off: Option<Run>, on: Option<Run>) -> Comparison {
    let codes = [&off, &on].into_iter().flatten().flat_map(|run| run.exits.keys().copied());
    let codes: std::collections::BTreeSet<u64> = codes.collect();
    let count = |run: &Option<Run>, code: u64| {
        run.as_ref().map(|run| run.exits.get(&code).copied().unwrap_or_default())
    };
    let mut exits: Vec<ExitRow> = codes
        .into_iter()
        .map(|code| ExitRow {
            code,
            name: exit_name(code),
            off: count(&off, code),
            on: count(&on, code),
        })
        .collect();
    exits.sort_by_key(|row| std::cmp::Reverse(row.off.or(row.on).map_or(0, |count| count.exits)));
    let both = [(false, &off), (true, &on)];
    let agreement =
        both.into_iter().filter_map(|(is_on, run)| Some(agreement(is_on, run.as_ref()?))).collect();
    let troubles = [&off, &on].into_iter().flatten().flat_map(|run| run.troubles.clone()).collect();
    let figures = |run: Option<Run>| run.map(|run| run.figures);
    Comparison {
        name: name.into(),
        exits,
        agreement,
        troubles,
        measures: crate::comparison::side_by_side(figures(off), figures(on)),
        inhibited: None,
        inhibits: Vec::new(),
        inhibit_history: None,
        incomplete: Vec::new(),
        unaccelerated: Vec::new(),
        doorbells: None,
        parameter: None,
    }
}

/// The hypervisor's count stands where KVM's tracepoints are otherwise.
fn agreement(is_on: bool, run: &Run) -> Agreement {
    let machine: BTreeMap<String, u64> =
        run.exits.iter().map(|(code, count)| (exit_name(*code), count.exits)).collect();
    let names: std::collections::BTreeSet<&String> = machine.keys().chain(run.own.keys()).collect();
    let pair = |name: &String| {
        let of = |counts: &BTreeMap<String, u64>| counts.get(name).copied().unwrap_or(0);
        (name.clone(), of(&run.own), of(&machine))
    };
    Agreement {
        is_on,
        counted_by: "the hypervisor",
        software: run.own.values().sum(),
        machine: machine.values().sum(),
        differences: names.into_iter().map(pair).filter(|(_, own, all)| own != all).collect(),
    }
}

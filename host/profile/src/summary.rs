//! A profile made ready to be shown: every number that any output prints, and nothing to compute.
//!
//! This is also the JSON that other programs read; `schema` grows when a field changes meaning.

mod scope;

use crate::avoidable::{Evidence, Verdict};
use crate::inhibit::Inhibits;
use crate::interrupts::{Interrupts, interrupts_of};
use crate::key::View;
use crate::name::ExtraNames;
use crate::profile::{Profile, Selection};
use scope::{Scope, ceiling, has_apic_faults};
use serde::Serialize;
use std::collections::BTreeMap;
use trace::exit_reason::Isa;
use trace::inhibit::Numbering;

/// Lines of time that people look at.
const MOST_STRETCHES: u64 = 60;

/// Version of the JSON.
pub const SCHEMA: u32 = 1;

/// What is known beside the events.
#[derive(Clone, Debug)]
pub struct Context {
    /// What exits are, where the events themselves do not say.
    pub isa: Option<Isa>,
    /// Of inhibit reasons, by the recorded kernel.
    pub numbering: Numbering,
    /// What verdicts rest on.
    pub evidence: Evidence,
    /// Names of printed reasons that no table knows.
    pub extra_names: ExtraNames,
    /// Names of threads by number; a process has the name of its first thread.
    pub thread_names: BTreeMap<u32, String>,
}

impl Default for Context {
    fn default() -> Self {
        Self {
            isa: None,
            numbering: Numbering::assumed(),
            evidence: Evidence::default(),
            extra_names: ExtraNames::new(),
            thread_names: BTreeMap::new(),
        }
    }
}

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Row {
    /// Reason, address, port or MSR.
    pub name: String,
    /// What it was about, where rows are split by it; or what an address or MSR is.
    pub about: String,
    /// Exits, or accesses.
    pub count: u64,
    /// Shares of all rows, in per cent.
    pub count_share: f64,
    /// Of the time of all rows, in per cent.
    pub time_share: f64,
    /// Share of the time of rows in which the vCPU does not just wait.
    pub work_share: f64,
    /// The vCPU waits in it rather than working.
    pub is_idle: bool,
    /// Sum of all durations.
    pub time_ns: u64,
    /// The shortest one.
    pub min_ns: u64,
    /// The longest one.
    pub max_ns: u64,
    /// Mean duration.
    pub mean_ns: f64,
    /// Standard error of the mean in per cent of it.
    pub relative_error: f64,
    /// Unknown of a printed table.
    pub p50_ns: Option<f64>,
    /// 99 % lasted no longer.
    pub p99_ns: Option<f64>,
    /// 99.9 % lasted no longer.
    pub p999_ns: Option<f64>,
    /// Of the whole recording.
    pub per_second: f64,
    /// `None` of accesses, and of reasons that join several details.
    pub verdict: Option<Verdict>,
    /// What would take it away; empty where nothing does.
    pub feature: String,
    /// Why the verdict is what it is.
    pub rule: String,
    /// Lower bound of each power of two in ns, and how many lasted that long.
    pub histogram: Vec<(u64, u64)>,
}

/// Rows and their totals.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Table {
    /// What the rows are.
    pub view: View,
    /// Most frequent first.
    pub rows: Vec<Row>,
    /// Of all rows.
    pub count: u64,
    /// Of all rows.
    pub time_ns: u64,
}

/// How much of the work of exits a verdict covers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Extent {
    /// Exits.
    pub count: u64,
    /// Sum of their durations.
    pub time_ns: u64,
    /// In per cent of the exits that are not idle.
    pub count_share: f64,
    /// In per cent of the time of exits that are not idle.
    pub time_share: f64,
}

/// The ceiling of the gain.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ceiling {
    /// Every exit that is not idle: the 100 % of all shares.
    pub work: Extent,
    /// Exits in which the vCPU waits.
    pub idle: Extent,
    /// Work that a feature would take away.
    pub avoidable: Extent,
    /// Work that would stay.
    pub not_avoidable: Extent,
    /// Work of which the recording does not tell.
    pub unknown: Extent,
    /// By feature, most exits first.
    pub by_feature: Vec<(String, Extent)>,
}

/// A line of a grouping by vCPU, by machine or by time.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Group {
    /// The vCPU, the machine, or the second at which it begins.
    pub name: String,
    /// Exits.
    pub count: u64,
    /// Divided by the line's own length.
    pub per_second: f64,
    /// Exits that are not idle.
    pub work_count: u64,
    /// Time in exits that are not idle.
    pub work_ns: u64,
    /// Time in exits in which the vCPU waits.
    pub idle_ns: u64,
    /// Exits that a feature would take away.
    pub avoidable: u64,
    /// Time in them.
    pub avoidable_ns: u64,
    /// The most frequent reason and its share of the exits.
    pub top: String,
}

/// Exits per second over time, a series per vCPU.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timeline {
    /// Width of a block.
    pub block_seconds: f64,
    /// Seconds from the first event to the start of each block.
    pub starts: Vec<f64>,
    /// A vCPU's name, and exits per second in each block.
    pub series: Vec<(String, Vec<f64>)>,
}

/// Everything shown of one recording.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// [`SCHEMA`], the version of this form.
    pub schema: u32,
    /// `None` where neither events nor file tell the vendor.
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::schema::isa"))]
    pub isa: Option<Isa>,
    /// From the first event to the last.
    pub seconds: f64,
    /// First event, by the recording's clock.
    pub from_ns: u64,
    /// Last event, by the recording's clock.
    pub to_ns: u64,
    /// KVM events read.
    pub events: u64,
    /// Events that the recorder itself says it lost.
    pub lost_events: u64,
    /// Exits followed by another exit.
    pub unpaired_exits: u64,
    /// Exits thrown away for a loss, or a clock that ran back.
    pub discarded_exits: u64,
    /// Threads that entered a guest.
    pub vcpus: u64,
    /// One line a virtual machine.
    pub machines: Vec<Group>,
    /// One line a vCPU.
    pub by_vcpu: Vec<Group>,
    /// Named by the second of the recording's clock that they begin at.
    pub by_time: Vec<Group>,
    /// The same with fewer, longer stretches, for readers.
    #[serde(skip)]
    pub by_longer_time: Vec<Group>,
    /// The rows of the view that was asked for, by reason.
    pub table: Table,
    /// The exits once more, split by what they were about.
    pub detailed: Table,
    /// What hardware interrupt virtualization could take away at most.
    pub ceiling: Ceiling,
    /// Empty where nobody asked for times.
    pub timeline: Timeline,
    /// `None` where no inhibit changed.
    pub inhibits: Option<Inhibits>,
    /// What was recorded of interrupts beside exits.
    pub interrupts: Interrupts,
    /// What makes figures less than they seem, a sentence each.
    pub warnings: Vec<String>,
}

impl Summary {
    /// Computes everything that `selection` asks for.
    pub fn new(profile: &Profile, context: &Context, selection: &Selection) -> Self {
        let isa = profile.isa.or(context.isa);
        let evidence = Evidence { has_apic_faults: has_apic_faults(profile), ..context.evidence };
        let scope = Scope { profile, context, isa, evidence };
        let by_reason = Selection { by_reason: true, ..selection.clone() };
        let detailed = Selection { view: View::Vmexit, by_reason: false, ..selection.clone() };
        let detailed = scope.table(&detailed);
        let span = profile.span_ns.unwrap_or((0, 0));
        let times = |stretch| match selection.has_times {
            true => scope.by_time(selection, stretch),
            false => Vec::new(),
        };
        Self {
            schema: SCHEMA,
            isa: scope.isa,
            seconds: profile.seconds(),
            from_ns: span.0,
            to_ns: span.1,
            events: profile.events,
            lost_events: profile.lost_events,
            unpaired_exits: profile.vcpus.iter().map(|vcpu| vcpu.unpaired).sum(),
            discarded_exits: profile.vcpus.iter().map(|vcpu| vcpu.discarded).sum(),
            vcpus: profile.vcpus.len() as u64,
            machines: scope.machines(selection),
            by_vcpu: scope.by_vcpu(selection),
            by_time: times(1),
            by_longer_time: times(scope.stretch(MOST_STRETCHES)),
            ceiling: ceiling(&detailed),
            table: scope.table(&by_reason),
            timeline: match selection.has_times {
                true => scope.timeline(selection),
                false => Timeline::default(),
            },
            inhibits: scope.inhibits(span),
            interrupts: interrupts_of(profile, selection.process),
            detailed,
            warnings: scope.warnings(),
        }
    }
}

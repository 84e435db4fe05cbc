//! One interrupt of a run as it went: who did what, and when, from the machine's own trace.
//!
//! Those that no vCPU sends, a device's and the timer's, are found in [`received`]. For IPIs the
//! workload sends one IPI after the other, the next as soon as the one before is answered. So a
//! stretch from a send to the next of the same vCPU is one IPI with all that it takes;
//! of the stretches, one that takes as long as the median is the example, or another by choice.

mod choice;
mod received;
mod share;
#[cfg(test)]
mod tests;

pub use choice::{Choice, Examples};
pub use share::Function;
pub(crate) use share::name as name_functions;

use super::counters::Reason;
use super::sampling::Samples;
use arch::apic::{DestinationMode, Icr};
use arch::identity::CpuIndex;
use arch::svm::ExitCode;
use arch::time::Picoseconds;
use choice::Stretch;
use serde::Serialize;
use std::collections::BTreeMap;
use trace::exit_reason::{Isa, vmx};
use trace::{Event, Record, VirtualCpu};

/// Records of a step that are kept for it; more are not looked at.
pub(crate) const MOST_RECORDS: usize = 300_000;
/// Sends that are not measured yet.
const WARM_UP: usize = 50;
/// Fewer stretches are too few to tell what is typical.
const LEAST: usize = 20;
/// Lengths that are kept of all.
const MOST_LENGTHS: usize = 2000;
/// The MSRs of x2APIC mode, and offsets of the page of xAPIC mode. [SDM3 "Local APIC Register
/// Address Map"]
const ICR_MSR: u32 = 0x830;
const EOI_MSR: u32 = 0x80B;
const ICR_OFFSET: u64 = 0x300;
const EOI_OFFSET: u64 = 0xB0;
/// Of EVENTINJ and of the entry interruption information. [APM2 "Event Injection"] [SDM3
/// "VM-Entry Interruption-Information Field"]
const IS_INJECTED: u64 = 1 << 31;
/// Behind what began before the interrupt that is shown.
const BEFORE: &str = " of the one before";
/// The page of the local APIC.
const APIC_PAGE: u64 = 0xFEE0_0000;

/// What interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Interrupt {
    /// Another vCPU.
    #[default]
    Ipi,
    /// A function that the guest is given.
    Device,
    /// The guest's own APIC timer.
    Timer,
}

impl Interrupt {
    /// With its article, for readers.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Ipi => "IPI",
            Self::Device => "interrupt of the device",
            Self::Timer => "timer interrupt",
        }
    }

    /// From when to when it lasts.
    pub const fn extent(self) -> &'static str {
        match self {
            Self::Ipi => "from send to answer and next send",
            Self::Device => "from the device's message to the end of the handler",
            Self::Timer => "from setting the timer to the end of the handler",
        }
    }
}

/// What a vCPU's time goes into, other than its guest's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Doing {
    /// From an exit to the next entry.
    Hypervisor,
    /// The processor virtualizes the interrupt without an exit.
    Hardware,
    /// The guest's handler.
    Handler,
}

impl Doing {
    /// All.
    pub const ALL: [Self; 3] = [Self::Hypervisor, Self::Hardware, Self::Handler];

    /// For readers.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Hypervisor => "in KVM",
            Self::Hardware => "the processor, without an exit",
            Self::Handler => "the guest's handler",
        }
    }
}

/// A stretch of it, from the send on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Span {
    /// When it begins, which is the send if that was before.
    pub from_ps: u64,
    /// When it ends, which is the next send if that is later.
    pub to_ps: u64,
    /// What it is.
    pub doing: Doing,
    /// The exit's reason, or the hardware's step, in the field's words.
    pub what: String,
}

/// An interrupt as it went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Example {
    /// What interrupted.
    pub interrupt: Interrupt,
    /// From the send to the next one, or from another cause to the end of the handler.
    pub duration_ps: u64,
    /// VM exits that began in that time, of sender and target.
    pub exits: u64,
    /// Of the vCPU that sends; of a device's, its message on the way and who helps it on.
    pub sender: Vec<Span>,
    /// Of the one that is interrupted.
    pub target: Vec<Span>,
    /// How long each took that is like it, shortest first; of many, some at even distances.
    #[serde(skip)]
    pub lengths_ps: Vec<u64>,
}

impl Example {
    /// Who did what, in lanes.
    pub fn lanes(&self) -> Vec<(&'static str, &[Span])> {
        let (sender, target) = (self.sender.as_slice(), self.target.as_slice());
        match self.interrupt {
            Interrupt::Ipi => vec![("sender", sender), ("target", target)],
            Interrupt::Device => vec![("device", sender), ("target", target)],
            Interrupt::Timer => vec![("vCPU", target)],
        }
    }

    fn of(records: &[Record], (from, to): (usize, usize), sender: VirtualCpu) -> Option<Self> {
        let (start, end) = (records[from].at, records[to].at);
        let target = target(records, from, to, sender)?;
        // What began before the send is found from its exit on.
        let begin = exit_before(records, from, target).unwrap_or(from);
        let stretch = &records[begin..to];
        let is_exit = |record: &&Record| {
            record.at >= start
                && record.at < end
                && exit_of(record).is_some_and(|(vcpu, _)| vcpu == sender || vcpu == target)
        };
        // A part of the way is seen by its end only, which can be behind the next send.
        let rest = &records[begin..records.len().min(to + (to - from) * 2 + 8)];
        let sent = hardware_send(&records[from..to], sender);
        let mut target_spans = in_hypervisor(rest, target);
        target_spans.extend(handled(rest, target, start, end));
        target_spans.extend(delivered(rest, target, sent.map_or(start, |(_, at)| at), end));
        let mut sender_spans = in_hypervisor(rest, sender);
        sender_spans.extend(sent.map(|(from, to)| (from, to, Doing::Hardware, "send".to_owned())));
        Some(Self {
            interrupt: Interrupt::Ipi,
            duration_ps: end.0 - start.0,
            exits: stretch.iter().filter(is_exit).count() as u64,
            sender: spans(sender_spans, start, end),
            target: spans(target_spans, start, end),
            lengths_ps: Vec::new(),
        })
    }

    /// Time in which the sender or the target was between an exit and an entry, in percent.
    pub fn share_in_hypervisor(&self) -> f64 {
        let all = self.sender.iter().chain(&self.target);
        let mut spans: Vec<(u64, u64)> = all
            .filter(|span| span.doing == Doing::Hypervisor)
            .map(|span| (span.from_ps, span.to_ps))
            .collect();
        spans.sort_unstable();
        let (mut sum, mut seen) = (0, 0);
        for (from, to) in spans {
            sum += to.saturating_sub(from.max(seen));
            seen = seen.max(to);
        }
        sum as f64 / self.duration_ps.max(1) as f64 * 100.0
    }
}

impl Examples {
    /// Of what a step did; None where nothing looks like it.
    pub(crate) fn find(records: &[Record], samples: &Samples) -> Option<Self> {
        received::device(records, samples)
            .or_else(|| Self::ipi(records, samples))
            .or_else(|| received::timer(records, samples))
    }

    fn ipi(records: &[Record], samples: &Samples) -> Option<Self> {
        let sends = sends(records);
        let stretches: Vec<Stretch> = stretches(&sends)
            .into_iter()
            .map(|(from, to)| Stretch { from, to, start: records[from].at, end: records[to].at })
            .collect();
        let first = stretches.first()?;
        let sender = sends.iter().find(|send| send.place == first.from)?.vcpu;
        let target = target(records, first.from, first.to, sender)?;
        let show = |place: usize| {
            Example::of(records, (stretches[place].from, stretches[place].to), sender)
        };
        Self::of(records, samples, &stretches, &[sender, target], show)
    }
}

/// A guest's write of its ICR.
struct Send {
    place: usize,
    vcpu: VirtualCpu,
    /// Where the trace has it.
    icr: Option<Icr>,
}

fn sends(records: &[Record]) -> Vec<Send> {
    // Which vCPU a processor of the host left last, and where.
    let mut left: BTreeMap<CpuIndex, (VirtualCpu, usize)> = BTreeMap::new();
    let mut sends = Vec::new();
    for (place, record) in records.iter().enumerate() {
        let exit = exit_of(record);
        if let Some((vcpu, _)) = exit {
            left.insert(record.cpu, (vcpu, place));
        }
        let send =
            |vcpu, place, icr: Option<u64>| Send { place, vcpu, icr: icr.map(Icr::from_bits) };
        sends.extend(match record.event {
            Event::VirtualIpiSent { vcpu, icr } => Some(send(vcpu, place, Some(icr))),
            // The access is told right behind the exit for it.
            Event::MsrWrite { index: ICR_MSR, value } => {
                left.get(&record.cpu).map(|(vcpu, place)| send(*vcpu, *place, Some(value)))
            }
            _ if register_of(record) == Some(ICR_OFFSET) => {
                exit.map(|(vcpu, _)| send(vcpu, place, None))
            }
            _ => None,
        });
    }
    sends
}

/// From a send to the next, of the first series of one vCPU's that are alike, without
/// those that warm up.
fn stretches(sends: &[Send]) -> Vec<(usize, usize)> {
    let kind = |send: &Send| {
        let icr =
            send.icr.map(|icr| (icr.vector(), icr.destination_mode() == DestinationMode::Logical));
        (send.vcpu, icr)
    };
    let series = sends.chunk_by(|a, b| kind(a) == kind(b)).find(|series| series.len() > LEAST);
    let series = series.unwrap_or_default();
    let skipped = WARM_UP.min(series.len() / 4);
    series[skipped.min(series.len())..]
        .windows(2)
        .map(|pair| (pair[0].place, pair[1].place))
        .collect()
}

/// The exit that a record is.
pub(crate) fn exit_of(record: &Record) -> Option<(VirtualCpu, Reason)> {
    match record.event {
        Event::SvmExit { vcpu, code, .. } => {
            Some((vcpu, Reason { isa: Isa::Svm, code: code.into_bits() }))
        }
        Event::VmxExit { vcpu, reason, .. } => {
            Some((vcpu, Reason { isa: Isa::Vmx, code: reason.into() }))
        }
        _ => None,
    }
}

/// The offset of the register of the APIC's page that a guest exited for, for whichever reason.
pub(crate) fn register_of(record: &Record) -> Option<u64> {
    let on_page = |address: u64| (address & !0xFFF == APIC_PAGE).then_some(address & 0xFF0);
    match record.event {
        Event::SvmExit { code: ExitCode::NestedPageFault, info2, .. } => on_page(info2),
        Event::SvmExit { code: ExitCode::AvicNoAcceleration, info1, .. } => Some(info1 & 0xFF0),
        Event::VmxExit {
            reason: vmx::EPT_VIOLATION | vmx::EPT_MISCONFIG, guest_physical, ..
        } => on_page(guest_physical),
        Event::VmxExit { reason: vmx::APIC_WRITE | vmx::APIC_ACCESS, qualification, .. } => {
            Some(qualification & 0xFF0)
        }
        _ => None,
    }
}

/// The vCPU that takes an interrupt between two sends.
fn target(records: &[Record], from: usize, to: usize, sender: VirtualCpu) -> Option<VirtualCpu> {
    records[from..to].iter().find_map(|record| taken_by(record).filter(|vcpu| *vcpu != sender))
}

/// The vCPU that takes an interrupt here, by the hypervisor or by its processor.
pub(crate) fn taken_by(record: &Record) -> Option<VirtualCpu> {
    match record.event {
        Event::Entry { vcpu, injected, .. } if injected & IS_INJECTED != 0 => Some(vcpu),
        Event::VirtualInterruptDelivered { vcpu, .. } => Some(vcpu),
        _ => None,
    }
}

/// The last exit of a vCPU before a place, if it has not been entered since.
fn exit_before(records: &[Record], place: usize, vcpu: VirtualCpu) -> Option<usize> {
    let own = records[..place].iter().enumerate().rev().find(|(_, record)| {
        let is_entry = matches!(record.event, Event::Entry { vcpu: own, .. } if own == vcpu);
        is_entry || exit_of(record).is_some_and(|(own, _)| own == vcpu)
    });
    own.filter(|(_, record)| exit_of(record).is_some()).map(|(place, _)| place)
}

type Part = (Picoseconds, Picoseconds, Doing, String);

/// What of it lies between two moments, in order.
fn spans(mut parts: Vec<Part>, start: Picoseconds, end: Picoseconds) -> Vec<Span> {
    parts.retain(|(a, b, ..)| *b > start && *a < end && b > a);
    parts.sort_by_key(|(a, ..)| *a);
    let span = |(a, b, doing, what): Part| Span {
        from_ps: a.0.saturating_sub(start.0),
        to_ps: b.min(end).0 - start.0,
        doing,
        what: if a < start { format!("{what}{BEFORE}") } else { what },
    };
    parts.into_iter().map(span).collect()
}

/// From exits to entries.
fn in_hypervisor(records: &[Record], vcpu: VirtualCpu) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut open: Option<(Picoseconds, CpuIndex, String)> = None;
    for record in records {
        match record.event {
            Event::Entry { vcpu: own, .. } if own == vcpu => {
                let begun = open.take();
                parts.extend(begun.map(|(at, _, what)| (at, record.at, Doing::Hypervisor, what)));
            }
            // The access that it exited for is told right behind the exit.
            Event::MsrWrite { index, .. } => {
                if let Some((.., what)) = open.as_mut().filter(|(_, cpu, _)| *cpu == record.cpu) {
                    named_by_access(what, index);
                }
            }
            _ => {
                if let Some((_, reason)) = exit_of(record).filter(|(own, _)| *own == vcpu) {
                    open = Some((record.at, record.cpu, word(record, reason)));
                }
            }
        }
    }
    if let Some((at, _, what)) = open {
        parts.push((at, Picoseconds(u64::MAX), Doing::Hypervisor, what));
    }
    parts
}

/// What an exit for an MSR is called by those who look at interrupts.
fn named_by_access(what: &mut String, index: u32) {
    match index {
        ICR_MSR => *what = "ICR write".into(),
        EOI_MSR => *what = "EOI".into(),
        _ => {}
    }
}

/// What an exit is called by those who look at interrupts.
fn word(record: &Record, reason: Reason) -> String {
    match register_of(record) {
        Some(ICR_OFFSET) => return "ICR write".into(),
        Some(EOI_OFFSET) => return "EOI".into(),
        _ => {}
    }
    match reason.name().as_str() {
        "interrupt" | "EXTERNAL_INTERRUPT" => "host interrupt".into(),
        "vintr" | "INTERRUPT_WINDOW" => "interrupt window".into(),
        name => name.to_owned(),
    }
}

/// From the handler's first instruction to its EOI.
fn handled(
    records: &[Record],
    vcpu: VirtualCpu,
    start: Picoseconds,
    end: Picoseconds,
) -> Vec<Part> {
    let begins = records.iter().position(|record| {
        let is_entered = match record.event {
            Event::Entry { vcpu: own, injected, .. } => own == vcpu && injected & IS_INJECTED != 0,
            Event::VirtualInterruptDelivered { vcpu: own, .. } => own == vcpu,
            _ => false,
        };
        is_entered && record.at >= start && record.at < end
    });
    let Some(begins) = begins else { return Vec::new() };
    let ends = records[begins + 1..].iter().find(|record| {
        let is_exit = exit_of(record).is_some_and(|(own, _)| own == vcpu);
        is_exit
            || matches!(record.event, Event::VirtualEndOfInterrupt { vcpu: own, .. } if own == vcpu)
    });
    let until = ends.map_or(Picoseconds(u64::MAX), |record| record.at);
    vec![(records[begins].at, until, Doing::Handler, "handler".to_owned())]
}

/// What the processor does for a guest that sends, without an exit: until it has told the target.
fn hardware_send(records: &[Record], sender: VirtualCpu) -> Option<(Picoseconds, Picoseconds)> {
    let first = records.first()?;
    let Event::VirtualIpiSent { vcpu, .. } = first.event else { return None };
    let is_last = |record: &&Record| {
        let tells = matches!(
            record.event,
            Event::Doorbell { .. } | Event::InterruptSent { .. } | Event::Posted { .. }
        );
        record.cpu == first.cpu && tells
    };
    let last = records.iter().rev().find(is_last)?;
    (vcpu == sender).then_some((first.at, last.at))
}

/// What the target's processor does to deliver without an exit.
fn delivered(
    records: &[Record],
    vcpu: VirtualCpu,
    told: Picoseconds,
    end: Picoseconds,
) -> Option<Part> {
    let taken = records.iter().find(|record| {
        let is_own = matches!(record.event, Event::VirtualInterruptDelivered { vcpu: own, .. } if own == vcpu);
        is_own && record.at >= told && record.at < end
    })?;
    Some((told, taken.at, Doing::Hardware, "deliver".to_owned()))
}

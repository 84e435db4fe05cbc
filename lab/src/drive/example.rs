//! One interrupt of a run as it went: who did what, and when, from the machine's own trace.
//!
//! The workload sends one IPI after the other, the next as soon as the one before is answered. So a
//! stretch from a send to the next of the same vCPU is one IPI with all that it takes;
//! of the stretches, one that takes as long as the median is the example.

use super::counters::Reason;
use arch::apic::{DestinationMode, Icr};
use arch::identity::CpuIndex;
use arch::svm::ExitCode;
use arch::time::Picoseconds;
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
/// The MSRs of x2APIC mode, and offsets of the page of xAPIC mode. [SDM3 "Local APIC Register
/// Address Map"]
const ICR_MSR: u32 = 0x830;
const EOI_MSR: u32 = 0x80B;
const ICR_OFFSET: u64 = 0x300;
const EOI_OFFSET: u64 = 0xB0;
/// Of EVENTINJ and of the entry interruption information. [APM2 "Event Injection"] [SDM3
/// "VM-Entry Interruption-Information Field"]
const IS_INJECTED: u64 = 1 << 31;
/// The page of the local APIC.
const APIC_PAGE: u64 = 0xFEE0_0000;

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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Example {
    /// From the send to the next one.
    pub duration_ps: u64,
    /// VM exits that began in that time, of sender and target.
    pub exits: u64,
    /// Of the vCPU that sends.
    pub sender: Vec<Span>,
    /// Of the one that is interrupted.
    pub target: Vec<Span>,
}

impl Example {
    /// The typical one of what a step did; None where it sent nothing that looks like it.
    pub(crate) fn typical(records: &[Record]) -> Option<Self> {
        let sends = sends(records);
        let stretches = stretches(&sends);
        if stretches.len() < LEAST {
            return None;
        }
        let length =
            |(from, to): &(usize, usize)| records[*to].at.0.saturating_sub(records[*from].at.0);
        let mut lengths: Vec<u64> = stretches.iter().map(length).collect();
        lengths.sort_unstable();
        let median = lengths[lengths.len() / 2];
        let chosen = stretches.iter().find(|one| length(one) == median)?;
        let sender = sends.iter().find(|send| send.place == chosen.0)?.vcpu;
        Self::of(records, *chosen, sender)
    }

    fn of(records: &[Record], (from, to): (usize, usize), sender: VirtualCpu) -> Option<Self> {
        let (start, end) = (records[from].at, records[to].at);
        let target = target(records, from, to, sender)?;
        let cut = |mut spans: Vec<(Picoseconds, Picoseconds, Doing, String)>| {
            spans.retain(|(a, b, ..)| *b > start && *a < end && b > a);
            spans.sort_by_key(|(a, ..)| *a);
            let span = |(a, b, doing, what): (Picoseconds, Picoseconds, Doing, String)| Span {
                from_ps: a.0.saturating_sub(start.0),
                to_ps: b.min(end).0 - start.0,
                doing,
                what: if a < start { format!("{what} of the one before") } else { what },
            };
            spans.into_iter().map(span).collect::<Vec<_>>()
        };
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
            duration_ps: end.0 - start.0,
            exits: stretch.iter().filter(is_exit).count() as u64,
            sender: cut(sender_spans),
            target: cut(target_spans),
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
    records[from..to].iter().find_map(|record| match record.event {
        Event::Entry { vcpu, injected, .. } if injected & IS_INJECTED != 0 && vcpu != sender => {
            Some(vcpu)
        }
        Event::VirtualInterruptDelivered { vcpu, .. } if vcpu != sender => Some(vcpu),
        _ => None,
    })
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
                    match index {
                        ICR_MSR => *what = "ICR write".into(),
                        EOI_MSR => *what = "EOI".into(),
                        _ => {}
                    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use arch::address::{Linear, SystemPhysical};
    use arch::identity::{ApicId, Vector};

    const SENDER: VirtualCpu = VirtualCpu(SystemPhysical(0x1000));
    const TARGET: VirtualCpu = VirtualCpu(SystemPhysical(0x2000));
    const ICR: u64 = 0x1_0000_00E1;

    fn record(at: u64, cpu: u16, event: Event) -> Record {
        Record { at: Picoseconds(at), cpu: CpuIndex(cpu), event }
    }

    fn exit(at: u64, cpu: u16, vcpu: VirtualCpu, code: ExitCode) -> Record {
        let rip = Linear(0);
        let event = Event::SvmExit { vcpu, code, info1: 1, info2: 0, interrupt_info: 0, rip };
        record(at, cpu, event)
    }

    fn entry(at: u64, cpu: u16, vcpu: VirtualCpu, injected: u64) -> Record {
        record(at, cpu, Event::Entry { vcpu, injected, rip: Linear(0) })
    }

    fn msr(at: u64, cpu: u16, index: u32, value: u64) -> Record {
        record(at, cpu, Event::MsrWrite { index, value })
    }

    /// Without the feature: the send exits, the host interrupts the target, the end exits.
    fn software(at: u64) -> Vec<Record> {
        vec![
            exit(at, 0, SENDER, ExitCode::Msr),
            msr(at, 0, ICR_MSR, ICR),
            exit(at + 200, 1, TARGET, ExitCode::Intr),
            entry(at + 400, 0, SENDER, 0),
            entry(at + 700, 1, TARGET, IS_INJECTED | 0xE1),
            exit(at + 800, 1, TARGET, ExitCode::Msr),
            msr(at + 800, 1, EOI_MSR, 0),
            entry(at + 1100, 1, TARGET, 0),
        ]
    }

    /// With it.
    fn hardware(at: u64) -> Vec<Record> {
        let (vcpu, vector, rip) = (TARGET, Vector(0xE1), Linear(0));
        vec![
            record(at, 0, Event::VirtualIpiSent { vcpu: SENDER, icr: ICR }),
            record(at + 50, 0, Event::Posted { place: SystemPhysical(7), vector }),
            record(at + 50, 0, Event::Doorbell { target: ApicId(1) }),
            record(at + 90, 1, Event::VirtualInterruptDelivered { vcpu, vector, rip }),
            record(at + 120, 1, Event::VirtualEndOfInterrupt { vcpu, vector }),
        ]
    }

    fn said(spans: &[Span]) -> Vec<(u64, u64, Doing, &str)> {
        spans.iter().map(|one| (one.from_ps, one.to_ps, one.doing, one.what.as_str())).collect()
    }

    #[test]
    fn an_ipi_by_software_is_its_exits_on_both_sides() {
        let records: Vec<Record> = (0..100).flat_map(|turn| software(turn * 1200)).collect();
        let example = Example::typical(&records).expect("a hundred sends");
        assert_eq!((example.duration_ps, example.exits), (1200, 3));
        assert_eq!(said(&example.sender), [(0, 400, Doing::Hypervisor, "ICR write")]);
        assert_eq!(
            said(&example.target),
            [
                (200, 700, Doing::Hypervisor, "host interrupt"),
                (700, 800, Doing::Handler, "handler"),
                (800, 1100, Doing::Hypervisor, "EOI"),
            ]
        );
        // 0 to 700 and 800 to 1100 of 1200.
        assert!((example.share_in_hypervisor() - 1000.0 / 12.0).abs() < 1e-9);
    }

    #[test]
    fn an_ipi_by_the_processor_has_no_exit() {
        let records: Vec<Record> = (0..100).flat_map(|turn| hardware(turn * 150)).collect();
        let example = Example::typical(&records).expect("a hundred sends");
        assert_eq!((example.duration_ps, example.exits), (150, 0));
        assert_eq!(said(&example.sender), [(0, 50, Doing::Hardware, "send")]);
        assert_eq!(
            said(&example.target),
            [(50, 90, Doing::Hardware, "deliver"), (90, 120, Doing::Handler, "handler"),]
        );
        assert_eq!(example.share_in_hypervisor(), 0.0);
    }

    #[test]
    fn what_lasts_from_the_one_before_is_named_so_and_cut() {
        // The target's EOI takes until behind the next send.
        let turn = |turn: u64| {
            let mut records = software(turn * 1000);
            records.sort_by_key(|record| record.at);
            records
        };
        let mut records: Vec<Record> = (0..100).flat_map(turn).collect();
        records.sort_by_key(|record| record.at);
        let example = Example::typical(&records).expect("a hundred sends");
        let first = &example.target[0];
        assert_eq!((first.from_ps, first.to_ps), (0, 100));
        assert_eq!(first.what, "EOI of the one before");
        assert_eq!(example.target.last().map(|span| span.to_ps), Some(1000));
    }

    #[test]
    fn a_run_that_sends_too_little_has_no_example() {
        let records: Vec<Record> = (0..10).flat_map(|turn| hardware(turn * 150)).collect();
        assert_eq!(Example::typical(&records), None);
        assert_eq!(Example::typical(&[]), None);
    }
}

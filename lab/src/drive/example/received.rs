//! An interrupt that no vCPU sends, a device's or the guest's own timer's, from its cause to the
//! end of its handler.

use super::choice::Stretch;
use super::{
    Doing, Example, Examples, Interrupt, Part, WARM_UP, delivered, exit_before, exit_of, handled,
    in_hypervisor, register_of, spans, taken_by,
};
use crate::drive::sampling::Samples;
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use std::collections::BTreeSet;
use trace::{Event, Record, VirtualCpu};

/// What sets the timer: registers of the APIC's page, and MSRs. [SDM3 "APIC Timer"]
const INITIAL_COUNT: u64 = 0x380;
const INITIAL_COUNT_MSR: u32 = 0x838;

/// Of the function for measuring.
pub(super) fn device(records: &[Record], samples: &Samples) -> Option<Examples> {
    let function = device::map::PULSE.requester();
    let is_message = |place: &usize| {
        let event = records[*place].event;
        matches!(event, Event::MessageSignalled { requester, .. } if requester == function)
    };
    let places = (0..records.len()).filter(is_message).collect();
    find(records, samples, places, Interrupt::Device)
}

/// Of a vCPU that sets its own.
pub(super) fn timer(records: &[Record], samples: &Samples) -> Option<Examples> {
    let sets = |place: &usize| {
        let (record, behind) = (&records[*place], records.get(place + 1));
        let is_msr = behind.is_some_and(|behind| {
            let is_count =
                matches!(behind.event, Event::MsrWrite { index, value } if is_count(index, value));
            is_count && behind.cpu == record.cpu
        });
        exit_of(record).is_some() && (is_msr || register_of(record) == Some(INITIAL_COUNT))
    };
    let places = (0..records.len()).filter(sets).collect();
    find(records, samples, places, Interrupt::Timer)
}

fn is_count(index: u32, value: u64) -> bool {
    [INITIAL_COUNT_MSR, arch::msr::TSC_DEADLINE].contains(&index) && value != 0
}

/// Of those that begin at these places.
fn find(
    records: &[Record],
    samples: &Samples,
    places: Vec<usize>,
    interrupt: Interrupt,
) -> Option<Examples> {
    let bounds = places.windows(2).skip(WARM_UP.min(places.len() / 4));
    let ways: Vec<Way> = bounds.filter_map(|pair| Way::of(records, pair[0], pair[1])).collect();
    let stretches: Vec<Stretch> = ways
        .iter()
        .map(|Way { from, to, start, end, .. }| Stretch {
            from: *from,
            to: *to,
            start: *start,
            end: *end,
        })
        .collect();
    let target = ways.first()?.target;
    let show = |place: usize| Some(ways[place].example(records, interrupt));
    Examples::of(records, samples, &stretches, &[target], show)
}

/// One, from its cause to the end of its handler.
#[derive(Clone, Copy)]
struct Way {
    from: usize,
    to: usize,
    start: Picoseconds,
    end: Picoseconds,
    target: VirtualCpu,
}

impl Way {
    fn length(&self) -> u64 {
        self.end.0 - self.start.0
    }

    /// None of one that was not handled before the next.
    fn of(records: &[Record], from: usize, to: usize) -> Option<Self> {
        let (start, stretch) = (records[from].at, &records[from..to]);
        let target = stretch.iter().find_map(taken_by)?;
        let (.., ended, _, _) = handled(stretch, target, start, Picoseconds(u64::MAX)).pop()?;
        // The EOI may be an exit, which is over with the entry behind it.
        let is_exit = |record: &Record| exit_of(record).is_some_and(|(own, _)| own == target);
        let is_entry =
            |record: &Record| matches!(record.event, Event::Entry { vcpu, .. } if vcpu == target);
        let last = stretch.iter().position(|record| record.at == ended && is_exit(record));
        let end = match last {
            Some(last) => stretch[last..].iter().find(|record| is_entry(record))?.at,
            None => ended,
        };
        (end.0 != u64::MAX).then_some(Self { from, to, start, end, target })
    }

    fn example(&self, records: &[Record], interrupt: Interrupt) -> Example {
        let Self { start, end, target, .. } = *self;
        let begin = exit_before(records, self.from, target).unwrap_or(self.from);
        let rest = &records[begin..self.to];
        let way =
            if interrupt == Interrupt::Device { self.on_its_way(records) } else { Vec::new() };
        let told = way.first().map_or(start, |(_, taken, ..)| *taken);
        let mut parts = in_hypervisor(rest, target);
        parts.extend(handled(rest, target, start, end));
        if interrupt == Interrupt::Device {
            parts.extend(delivered(rest, target, told, end));
        }
        let exits = records[self.from..self.to].iter().filter(|record| {
            record.at < end && exit_of(record).is_some_and(|(vcpu, _)| vcpu == target)
        });
        Example {
            interrupt,
            duration_ps: self.length(),
            exits: exits.count() as u64,
            sender: spans(way, start, end),
            target: spans(parts, start, end),
            lengths_ps: Vec::new(),
        }
    }

    /// The message until it is taken in, and a processor of the host that handles it and runs
    /// no vCPU.
    fn on_its_way(&self, records: &[Record]) -> Vec<Part> {
        let stretch = &records[self.from..self.to];
        let is_own = |record: &&Record| match record.event {
            Event::Entry { vcpu, .. } | Event::VirtualInterruptDelivered { vcpu, .. } => {
                vcpu == self.target
            }
            _ => exit_of(record).is_some_and(|(vcpu, _)| vcpu == self.target),
        };
        let of_target: BTreeSet<CpuIndex> =
            records[..self.to].iter().filter(is_own).map(|record| record.cpu).collect();
        let is_taken = |record: &&Record| match record.event {
            Event::InterruptAccepted { .. } => true,
            Event::VirtualInterruptAccepted { vcpu, .. } => vcpu == self.target,
            _ => false,
        };
        let taken = stretch.iter().find(is_taken).map_or(self.end, |record| record.at);
        let mut parts = vec![(self.start, taken, Doing::Hardware, "message".to_owned())];
        let handler = stretch.iter().find(|record| {
            let is_handler = matches!(record.event, Event::InterruptDelivered { .. });
            is_handler && record.at >= taken && !of_target.contains(&record.cpu)
        });
        // It ends for the guest when the target is told, or woken.
        let told = handler.and_then(|handler| {
            stretch.iter().find(|record| match record.event {
                Event::InterruptSent { .. } => record.cpu == handler.cpu && record.at > handler.at,
                Event::Wake {} => of_target.contains(&record.cpu) && record.at > handler.at,
                _ => false,
            })
        });
        if let (Some(handler), Some(told)) = (handler, told) {
            parts.push((handler.at, told.at, Doing::Hypervisor, "host interrupt".to_owned()));
        }
        parts
    }
}

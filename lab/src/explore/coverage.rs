//! Coverage: the orders in which events of interrupts were seen on two processors.

use super::oracle::{svm_halts, vmx_halts, way_of};
use super::spot::{Last, Spot};
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use std::collections::BTreeMap;
use trace::{Event, Record};

/// What a processor is at, as its records show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing was recorded of it yet.
    #[default]
    Unknown,
    /// Its guest.
    InGuest,
    /// What its guest left for.
    Out,
    /// The same, where that was a halt.
    OutHalted,
    /// Nothing: it waits for an interrupt.
    Idle,
}

/// An event on a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Side {
    cpu: u16,
    kind: u8,
    /// The exit's reason, the host's vector, or the way of an IPI.
    detail: u16,
    /// What the processor was at.
    state: State,
}

/// Two events, one right after the other, on two processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    first: Side,
    second: Side,
}

/// How a pair came about: where to hold the first one's processor, so that the second comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meeting {
    /// On which the first event was.
    pub cpu: CpuIndex,
    /// When that was.
    pub spot: Spot,
    /// From the first event to the second.
    pub gap: Picoseconds,
}

/// What a processor did last.
#[derive(Clone, Copy, Default)]
struct Track {
    state: State,
    last: Last,
}

/// The pairs of a window that began at `begins`, each as it came about first.
pub(super) fn pairs(begins: Picoseconds, mut records: Vec<Record>) -> BTreeMap<Pair, Meeting> {
    // Those of one processor are in order already.
    records.sort_by_key(|record| record.at);
    let mut tracks: BTreeMap<u16, Track> = BTreeMap::new();
    let mut before: Option<(Side, Picoseconds, Meeting)> = None;
    let mut pairs = BTreeMap::new();
    for record in &records {
        let track = tracks.entry(record.cpu.0).or_default();
        if let Some(detail) = detail(&record.event) {
            let (cpu, kind) = (record.cpu.0, record.event.kind());
            let second = Side { cpu, kind, detail, state: track.state };
            if let Some((first, at, meeting)) = before.filter(|(first, ..)| first.cpu != cpu) {
                let gap = Picoseconds(record.at.0 - at.0);
                pairs.entry(Pair { first, second }).or_insert(Meeting { gap, ..meeting });
            }
            before = Some((second, record.at, track.meeting(record, begins)));
        }
        track.note(record);
    }
    pairs
}

impl Track {
    fn meeting(&self, record: &Record, begins: Picoseconds) -> Meeting {
        let spot = self.last.spot(record.at, begins);
        Meeting { cpu: record.cpu, spot, gap: Picoseconds::ZERO }
    }

    fn note(&mut self, record: &Record) {
        self.last.note(record);
        self.state = match record.event {
            Event::Entry { .. } => State::InGuest,
            Event::SvmExit { code, .. } if svm_halts(code) => State::OutHalted,
            Event::VmxExit { reason, .. } if vmx_halts(reason) => State::OutHalted,
            Event::SvmExit { .. } | Event::VmxExit { .. } => State::Out,
            Event::Halt { .. } => State::Idle,
            Event::Wake {} if self.state == State::Idle => State::Out,
            _ => self.state,
        };
    }
}

/// What tells events of a kind apart, of those that are counted. Vectors of guests do not: they
/// are many, and alike.
fn detail(event: &Event) -> Option<u16> {
    Some(match *event {
        Event::Entry { injected, .. } => u16::from(injected != 0),
        Event::SvmExit { code, .. } => code.into_bits() as u16,
        Event::VmxExit { reason, .. } => reason as u16,
        Event::InterruptSent { vector, .. }
        | Event::InterruptAccepted { vector, .. }
        | Event::InterruptDelivered { vector, .. } => vector.0.into(),
        Event::VirtualIpiSent { icr, .. } => way_of(icr) as u16,
        Event::Posted { .. }
        | Event::Doorbell { .. }
        | Event::Halt { .. }
        | Event::Wake {}
        | Event::VirtualInterruptAccepted { .. }
        | Event::VirtualEndOfInterrupt { .. } => 0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arch::address::{Linear, SystemPhysical};
    use arch::identity::Vector;
    use board::perturb::Anchor;

    fn ns(time: u64) -> Picoseconds {
        Picoseconds::from_nanoseconds(time)
    }

    fn halt(cpu: u16, at: u64) -> Record {
        Record { at: ns(at), cpu: CpuIndex(cpu), event: Event::Halt { rip: Linear(0) } }
    }

    fn post(cpu: u16, at: u64) -> Record {
        let event = Event::Posted { place: SystemPhysical(0x1000), vector: Vector(0x31) };
        Record { at: ns(at), cpu: CpuIndex(cpu), event }
    }

    #[test]
    fn events_of_two_processors_are_a_pair_and_their_order_and_states_make_it_another() {
        let pairs_of = |records: &[Record]| pairs(ns(0), records.to_vec());
        assert_eq!(pairs_of(&[halt(0, 1), post(0, 2)]).len(), 0, "of one processor");
        let one = pairs_of(&[halt(0, 1), post(1, 2)]);
        assert_eq!(one.len(), 1);
        assert_eq!(pairs_of(&[post(1, 2), halt(0, 1)]), one, "by time, not as they were recorded");
        let others = [
            [post(1, 1), halt(0, 2)].to_vec(),
            [halt(1, 1), post(0, 2)].to_vec(),
            [halt(1, 1), halt(0, 2), post(1, 3)].to_vec(),
        ];
        for records in others {
            assert!(!pairs_of(&records).contains_key(one.keys().next().unwrap()), "{records:?}");
        }
    }

    #[test]
    fn a_meeting_says_where_the_first_processor_was_before_and_how_far_the_second_was() {
        let records = [halt(0, 10), halt(0, 20), post(0, 50), halt(1, 90)];
        let all = pairs(ns(0), records.to_vec());
        let own: Vec<_> = all.values().copied().collect();
        let (cpu, after) = (CpuIndex(0), Anchor::Halt);
        assert_eq!(
            own,
            [Meeting { cpu, spot: Spot { after, count: 2, offset: ns(30) }, gap: ns(40) }]
        );
        let first = pairs(ns(5), vec![post(0, 9), halt(1, 12)]);
        let own: Vec<_> = first.values().copied().collect();
        let after = Anchor::Start;
        assert_eq!(
            own,
            [Meeting { cpu, spot: Spot { after, count: 0, offset: ns(4) }, gap: ns(3) }]
        );
    }
}

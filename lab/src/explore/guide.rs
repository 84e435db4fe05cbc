//! Guidance at a moment: a window that showed an order of two events that no earlier one of the
//! moment did is kept. Its decisions are drawn on: some are left out, and the processor of an event
//! is held up before it for longer than the other was away, so that the two change places.
//!
//! Nothing is carried from one moment to another, so what a moment gives follows from its number.

use super::coverage::{Meeting, Pair};
use super::spot::Spot;
use arch::time::Picoseconds;
use board::perturb::{Decision, Source};
use bus::Random;
use std::collections::{BTreeMap, BTreeSet};

/// Events that are further apart seldom depend on each other.
const NEAR: Picoseconds = Picoseconds::from_nanoseconds(20_000);
/// Beyond what changes the order, one of these is added.
const BEYOND_NS: [u64; 6] = [50, 100, 200, 500, 2_000, 10_000];

/// What the windows of a moment have shown.
#[derive(Default)]
pub(super) struct Guide {
    shown: BTreeSet<Pair>,
    parents: Vec<Parent>,
}

struct Parent {
    decisions: Vec<Decision>,
    /// What it was the first to show, where the two were near.
    fresh: Vec<Meeting>,
}

impl Guide {
    /// Takes in what a window showed: how many pairs no earlier one did.
    pub fn learn(&mut self, decisions: Vec<Decision>, pairs: &BTreeMap<Pair, Meeting>) -> u64 {
        let fresh: Vec<_> = pairs.iter().filter(|(pair, _)| self.shown.insert(**pair)).collect();
        let count = fresh.len() as u64;
        let near = fresh.into_iter().map(|(_, meeting)| *meeting);
        let fresh: Vec<_> = near.filter(|meeting| meeting.gap <= NEAR).collect();
        if !fresh.is_empty() {
            self.parents.push(Parent { decisions, fresh });
        }
        count
    }

    /// What the next window decides; nothing if there is nothing to draw on.
    pub fn propose(&self, seed: u64) -> Option<Source> {
        let mut random = Random(seed);
        random.next();
        let last = self.parents.len().checked_sub(1)?;
        // The later ones know more, and of any two one is taken as often as the other.
        let parent = &self.parents[last - random.below(last as u64 + 1) as usize];
        let kept_in = random.pick(&[0, 2, 4, 4]);
        let mut decisions: Vec<_> =
            parent.decisions.iter().filter(|_| random.below(4) < kept_in).copied().collect();
        for _ in 0..random.pick(&[1, 2, 4, 8, 16, 32]) {
            let meeting = random.pick(&parent.fresh);
            decisions.push(swap(meeting, &mut random));
        }
        Some(Source::Plan(decisions))
    }
}

/// Holds the first event's processor somewhere before it, until the second is past.
fn swap(meeting: Meeting, random: &mut Random) -> Decision {
    let Meeting { cpu, spot: Spot { after, count, offset }, gap } = meeting;
    let offset = match random.below(2) {
        0 => Picoseconds::ZERO,
        _ => Picoseconds(random.below(offset.0.max(1))),
    };
    let beyond = Picoseconds::from_nanoseconds(random.pick(&BEYOND_NS));
    let delay = gap.saturating_add(beyond).min(after.longest_delay());
    Decision { cpu, after, count, offset, delay }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::coverage;
    use arch::address::{Linear, SystemPhysical};
    use arch::identity::{CpuIndex, Vector};
    use board::perturb::Anchor;
    use trace::{Event, Record};

    fn pairs(gap_ns: u64) -> BTreeMap<Pair, Meeting> {
        let record = |cpu, at, event| Record {
            at: Picoseconds::from_nanoseconds(at),
            cpu: CpuIndex(cpu),
            event,
        };
        let posted = Event::Posted { place: SystemPhysical(0x1000), vector: Vector(0x31) };
        let halt = Event::Halt { rip: Linear(0) };
        let all = vec![record(0, 10, halt), record(0, 50, posted), record(1, 50 + gap_ns, halt)];
        coverage::pairs(Picoseconds::ZERO, all)
    }

    #[test]
    fn the_processor_of_the_first_event_is_held_before_it_until_the_second_is_past() {
        let mut guide = Guide::default();
        assert!(guide.propose(1).is_none(), "nothing to draw on");
        assert_eq!(guide.learn(Vec::new(), &pairs(300)), 1);
        for seed in 0..100 {
            let Some(Source::Plan(decisions)) = guide.propose(seed) else { panic!("no plan") };
            assert!(!decisions.is_empty());
            for one in decisions {
                assert_eq!((one.cpu, one.after, one.count), (CpuIndex(0), Anchor::Halt, 1));
                assert!(one.offset.0 < 40_000, "before the event: {one}");
                assert!(one.delay > Picoseconds::from_nanoseconds(300), "{one}");
            }
        }
    }

    #[test]
    fn what_was_shown_before_or_is_far_apart_is_not_drawn_on() {
        let mut guide = Guide::default();
        assert_eq!(guide.learn(Vec::new(), &pairs(30_000)), 1);
        assert!(guide.propose(1).is_none(), "far apart");
        assert_eq!(guide.learn(Vec::new(), &pairs(300)), 0, "shown before");
        assert!(guide.propose(1).is_none());
    }
}

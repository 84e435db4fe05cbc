//! Perturbation: processors are held up, as SMIs, an outer hypervisor or a slow thread do to real
//! ones, so that events come in other orders. All others overtake one whose clock has moved on.
//!
//! Where a processor is held is said by what it did last ([`Anchor`], the count of such since the
//! perturbation began) and how long ago that was on its own clock. A [`Decision`] so stays at
//! its place in the code while others are taken out. The decisions that were carried out are a log;
//! taken as a plan, from the same state of the machine, they repeat the run bit by bit.

mod chance;
mod decision;

pub use chance::{Chance, Held};
pub use decision::{Anchor, Decision, Hold};

use arch::address::Linear;
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use trace::{Event, Record};

/// Decisions of one perturbation at most.
const MOST_DECISIONS: usize = 1 << 16;

/// Who decides.
#[derive(Clone, Debug)]
pub enum Source {
    /// Drawn from a seed.
    Chance(Box<Chance>),
    /// Known beforehand.
    Plan(Vec<Decision>),
}

/// A processor under perturbation.
#[derive(Clone, Debug)]
struct Place {
    /// By anchor: how many there were.
    counts: [u32; Anchor::ALL.len()],
    last: Anchor,
    at: Picoseconds,
    /// From its last anchor on: the next place, and for how long it is held there.
    next: Option<Held>,
    /// What its present turn ends for, and when: another anchor may take its place meanwhile.
    bound: Option<(Decision, Picoseconds)>,
}

impl Place {
    /// As the log has it.
    fn decision(&self, index: usize, held: Held) -> Decision {
        let count = self.counts[self.last as usize];
        let Held { offset, delay } = held;
        Decision { cpu: CpuIndex(index as u16), after: self.last, count, offset, delay }
    }
}

/// What holds processors up, while it does.
#[derive(Clone, Debug)]
pub(crate) struct Perturbation {
    source: Source,
    places: Vec<Place>,
    log: Vec<Hold>,
    /// By processor: for how long it has been held, all in all.
    held: Vec<Picoseconds>,
}

impl Perturbation {
    pub(crate) fn new(source: Source, clocks: &[Picoseconds]) -> Self {
        let place = |at: &Picoseconds| Place {
            counts: [0; Anchor::ALL.len()],
            last: Anchor::Start,
            at: *at,
            next: None,
            bound: None,
        };
        let mut new = Self {
            source,
            places: clocks.iter().map(place).collect(),
            log: Vec::new(),
            held: vec![Picoseconds::ZERO; clocks.len()],
        };
        for index in 0..clocks.len() {
            new.look_ahead(index);
        }
        new
    }

    /// Of all processors the longest time for which one has been held, all in all.
    pub(crate) fn longest_hold(&self) -> Picoseconds {
        self.held.iter().copied().max().unwrap_or(Picoseconds::ZERO)
    }

    /// Decides nothing more.
    pub(crate) fn calm(&mut self) {
        self.source = Source::Plan(Vec::new());
        self.places.iter_mut().for_each(|place| place.next = None);
    }

    pub(crate) fn log(&self) -> &[Hold] {
        &self.log
    }

    pub(crate) fn into_log(self) -> Vec<Hold> {
        self.log
    }

    /// Takes note of a record, which may be an anchor of its processor's.
    pub(crate) fn note(&mut self, record: &Record) {
        let Some(anchor) = Anchor::of(&record.event) else { return };
        let index = usize::from(record.cpu.0);
        let Some(place) = self.places.get_mut(index) else { return };
        place.counts[anchor as usize] += 1;
        (place.last, place.at) = (anchor, record.at);
        self.look_ahead(index);
    }

    /// What is to be done from a processor's last anchor on.
    fn look_ahead(&mut self, index: usize) {
        let place = &mut self.places[index];
        let (cpu, after) = (CpuIndex(index as u16), place.last);
        let count = place.counts[after as usize];
        place.next = match &mut self.source {
            Source::Chance(chance) => chance.draw(after),
            Source::Plan(plan) => planned(plan, (cpu, after, count), None),
        };
    }

    /// The moment at which a processor's turn has to end for it to be held there.
    pub(crate) fn next(&self, index: usize) -> Option<Picoseconds> {
        let place = self.places.get(index)?;
        place.next.map(|held| place.at.saturating_add(held.offset))
    }

    /// A processor's turn ends at `until` for the sake of [`Self::next`].
    pub(crate) fn bound(&mut self, index: usize, until: Picoseconds) {
        let Some(place) = self.places.get_mut(index) else { return };
        let of = |held| (place.decision(index, held), until);
        place.bound = place.next.map(of);
    }

    /// For how long a processor whose turn is over is held now, at `rip`.
    pub(crate) fn hold(
        &mut self,
        index: usize,
        now: Picoseconds,
        rip: Linear,
    ) -> Option<Picoseconds> {
        let bound = self.places.get_mut(index)?.bound.take();
        let delay = self.carry_out(index, now, rip);
        let done = delay.and_then(|_| self.log.last()).map(|hold| hold.decision);
        // A turn that ended for nothing has another order of turns follow: a decision as well.
        if let Some((decision, until)) = bound
            && now >= until
            && done != Some(decision)
            && self.log.len() < MOST_DECISIONS
        {
            let decision = Decision { delay: Picoseconds::ZERO, ..decision };
            let place = self.log.len() - usize::from(done.is_some());
            self.log.insert(place, Hold { decision, at: now, rip });
        }
        delay
    }

    fn carry_out(&mut self, index: usize, now: Picoseconds, rip: Linear) -> Option<Picoseconds> {
        if self.next(index).is_none_or(|at| now < at) {
            return None;
        }
        if self.log.len() >= MOST_DECISIONS {
            self.calm();
        }
        let place = self.places.get_mut(index)?;
        let held = place.next.take()?;
        self.held[index].0 += held.delay.0;
        let decision = place.decision(index, held);
        self.log.push(Hold { decision, at: now, rip });
        // Time in which a processor was held does not count for what comes after its anchor.
        place.at = place.at.saturating_add(held.delay);
        place.next = match &mut self.source {
            Source::Chance(chance) => chance.draw_again(place.last, held.offset),
            Source::Plan(plan) => {
                planned(plan, (decision.cpu, place.last, decision.count), Some(held.offset))
            }
        };
        Some(held.delay)
    }
}

/// The first decision of a plan for an anchor, behind an offset.
fn planned(
    plan: &[Decision],
    (cpu, after, count): (CpuIndex, Anchor, u32),
    behind: Option<Picoseconds>,
) -> Option<Held> {
    plan.iter()
        .filter(|one| one.cpu == cpu && one.after == after && one.count == count)
        .filter(|one| behind.is_none_or(|behind| one.offset > behind))
        .min_by_key(|one| one.offset)
        .map(|one| Held { offset: one.offset, delay: one.delay })
}

impl Anchor {
    /// What an event is to the processor that it is recorded of.
    pub fn of(event: &Event) -> Option<Self> {
        Some(match event {
            Event::Entry { .. } => Self::Entry,
            Event::SvmExit { .. } | Event::VmxExit { .. } => Self::Exit,
            Event::Halt { .. } => Self::Halt,
            Event::Wake {} => Self::Wake,
            Event::InterruptAccepted { .. } => Self::Arrival,
            Event::InterruptDelivered { .. } | Event::VirtualInterruptDelivered { .. } => {
                Self::Interrupt
            }
            Event::Posted { .. } => Self::Post,
            Event::VirtualIpiSent { .. } => Self::Send,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;

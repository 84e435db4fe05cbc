//! A processor that goes round a loop that waits, kept track of without executing it: where it
//! stands at any time, until it has to be looked at, follows from one round.

use super::cache::CodeCache;
use super::room::Room;
use super::round::{Read, Round, classes, interpret_round, point};
use crate::{Bus, Cpu};
use arch::time::Picoseconds;
use bus::GuestMemory;

/// Instructions of a round at most.
const PLACES: usize = 12;
/// What a round reads at most.
const READS: usize = 2;

/// A processor in a loop that waits. What each turn looks at comes first and is small, since
/// hundreds of processors may wait.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Waiting {
    reads: [Read; READS],
    /// When a round began.
    since: Picoseconds,
    /// At this moment its timer fires.
    ends: Picoseconds,
    /// Of a round, in picoseconds.
    time: u64,
    /// When instructions begin, since the round began; after the last comes the round's time.
    places: [u32; PLACES],
    /// Begun where the processor stands.
    round: Box<Round>,
}

impl Waiting {
    fn new(round: Round, since: Picoseconds, ends: Picoseconds) -> Option<Self> {
        let time = u32::try_from(round.time).ok()?;
        let (mut reads, mut places) = ([Read::default(); READS], [time; PLACES]);
        reads.get_mut(..round.reads.len())?.copy_from_slice(&round.reads);
        for (to, place) in places.get_mut(..round.places.len())?.iter_mut().zip(&round.places) {
            *to = place.at as u32;
        }
        Some(Self { reads, since, ends, time: round.time, places, round: Box::new(round) })
    }

    /// Whether the processor would read what it has read.
    #[inline(always)]
    pub fn reads_the_same(&self, memory: &GuestMemory) -> bool {
        self.reads.iter().all(|read| read.is_same(memory))
    }

    /// Whether it would execute what it has executed.
    pub fn has_its_code(&self, memory: &GuestMemory) -> bool {
        self.round.has_its_code(memory)
    }

    /// Where a turn that ends at `until` leaves its clock: at the first boundary of instructions
    /// from then on. `None` if what comes before is not only waiting.
    #[inline(always)]
    pub fn boundary(&mut self, until: Picoseconds) -> Option<Picoseconds> {
        let since = until.0.checked_sub(self.since.0)?;
        let (rounds, part) = (since / self.time, (since % self.time) as u32);
        // Rounds that are over: the next division is one of small numbers.
        self.since.0 += rounds * self.time;
        let passed = self.places.iter().filter(|at| **at < part).count();
        let within = self.places.get(passed).map_or(self.time, |at| u64::from(*at));
        let at = Picoseconds(self.since.0 + within);
        (at < self.ends).then_some(at)
    }
}

impl Cpu {
    /// Goes round once if the processor stands in a loop that waits and the turn has room for a
    /// round; what it has executed before it turned out to be none, it has executed.
    pub fn look_at_round(
        &mut self,
        cache: &mut CodeCache,
        bus: &mut Bus<'_>,
        until: Picoseconds,
    ) -> Option<Round> {
        // A guest's PAUSEs are counted.
        let may_wait = self.pending.is_quiet()
            && !self.is_guest()
            && !self.observation.has_points()
            && !bus.memory.keeps_stores()
            && self.next_deadline().is_none_or(|deadline| deadline > until);
        let room = Room { clock: until, instructions: u64::MAX };
        may_wait.then(|| interpret_round(self, &mut cache.blocks, bus, room)).flatten()
    }

    /// The processor, at the end of a turn in which it has gone such a round, goes on so.
    pub fn waits_in(&mut self, round: Round) -> Option<Waiting> {
        let here = point(self);
        let first = round.places.iter().position(|place| place.state == here)?;
        let (round, since) = (round.begun_at(first), self.clock.now());
        let ends = self.next_deadline().unwrap_or(Picoseconds::MAX);
        let may_wait = self.pending.is_quiet() && !self.is_guest();
        may_wait.then(|| Waiting::new(round, since, ends)).flatten()
    }

    /// The processor stands where it does at `now`, a [`Waiting::boundary`], and goes on by itself.
    pub fn leave_waiting(&mut self, cache: &mut CodeCache, waiting: &Waiting, now: Picoseconds) {
        let round = &waiting.round;
        let since = now.0.saturating_sub(self.clock.now().0);
        let (rounds, part) = (since / round.time, since % round.time);
        let passed = round.places.iter().take_while(|place| place.at < part).count();
        let (done, all) = (&round.places[..passed], round.places.as_slice());
        for (times, places, time) in [(rounds, all, round.time), (1, done, part)] {
            self.clock.spend(Picoseconds(times * time));
            self.clock.count(times * places.len() as u64);
            cache.blocks.note_classes(self.index, &classes(places), times);
        }
        if let Some(place) = round.places.get(passed) {
            self.registers.ip = place.state.ip;
            self.registers.gpr[..16].copy_from_slice(&place.state.registers);
            self.registers.flags = place.state.flags;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Flags;
    use crate::engine::round::{Place, Point};

    #[test]
    fn a_turn_ends_before_the_first_instruction_that_would_begin_at_its_end_or_later() {
        let state = Point { ip: 0, registers: [0; 16], flags: Flags::default() };
        let place = |at| Place { at, class: None, is_pause: false, state: state.clone() };
        let places = [0, 10, 30].map(place).to_vec();
        let round = Round { time: 50, places, reads: Vec::new(), code: Vec::new() };
        let (since, ends) = (Picoseconds(1000), Picoseconds(1130));
        let mut waiting = Waiting::new(round, since, ends).expect("a short round");
        for (until, boundary) in [
            (999, None),
            (1000, Some(1000)),
            (1001, Some(1010)),
            (1010, Some(1010)),
            (1011, Some(1030)),
            (1031, Some(1050)),
            (1110, Some(1110)),
            (1111, None),
        ] {
            let at = waiting.boundary(Picoseconds(until));
            assert_eq!(at, boundary.map(Picoseconds), "a turn until {until}");
        }
    }
}

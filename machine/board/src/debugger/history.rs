//! A debugged machine's past: moments to which it can return, not too far from each other.
//!
//! The machine knows one mark, that of the last moment. For the others there is what memory was,
//! page by page, before it changed on the way to the next.

use crate::Machine;
use crate::mark::Mark;
use arch::time::Picoseconds;
use bus::Before;
use std::collections::VecDeque;

/// Virtual time from one moment to the next.
const DISTANCE: Picoseconds = Picoseconds::from_milliseconds(5);
/// Moments at most.
const MOST: usize = 128;
/// Bytes of memory that all of them keep at most, and as many of processors.
const MOST_BYTES: usize = 512 << 20;
/// Bytes of a processor, in about: nearly all of it is the TLB.
const CPU_BYTES: usize = 256 << 10;

struct Moment {
    mark: Mark,
    /// Of all processors, since power-on.
    instructions: u64,
    at: Picoseconds,
    /// Records of what happened until here, where they are kept.
    records: usize,
    /// What changed from here to the next moment; the machine's own mark stands for the last.
    before: Before,
}

/// The moments, the oldest in front.
#[derive(Default)]
pub(super) struct History {
    moments: VecDeque<Moment>,
}

impl History {
    /// Keeps this moment if the last is long ago; the oldest go where there is no room.
    pub fn note(&mut self, machine: &mut Machine) {
        let now = machine.state.now;
        if self.moments.back().is_none_or(|last| now >= last.at.saturating_add(DISTANCE)) {
            self.add(machine);
        }
    }

    /// Forgets the past: the machine is about to do what it would not do by itself.
    pub fn clear(&mut self, machine: &mut Machine) {
        // Without moments a mark is another keeper's.
        if !self.moments.is_empty() {
            self.moments.clear();
            machine.forget_mark();
        }
    }

    fn add(&mut self, machine: &mut Machine) {
        if let Some(last) = self.moments.back_mut() {
            last.before = machine.memory.leave_mark();
        }
        // Records only grow: each moment needs to know how many there were.
        let kept = machine.state.wiring.recorder.records.take();
        let mark = machine.mark();
        let records = kept.as_ref().map_or(0, Vec::len);
        machine.state.wiring.recorder.records = kept;
        self.moments.push_back(Moment {
            mark,
            records,
            instructions: machine.instructions(),
            at: machine.state.now,
            before: Before::default(),
        });
        let most = MOST.min(MOST_BYTES / (CPU_BYTES * machine.state.cpus.len().max(1))).max(2);
        let mut bytes: usize = self.moments.iter().map(|moment| moment.before.size()).sum();
        while self.moments.len() > most || bytes > MOST_BYTES && self.moments.len() > 1 {
            let oldest = self.moments.pop_front();
            bytes -= oldest.map_or(0, |moment| moment.before.size());
        }
    }

    /// How many records none of the moments needs.
    pub fn unneeded_records(&self) -> usize {
        self.moments.front().map_or(0, |moment| moment.records)
    }

    /// So many records are gone.
    pub fn forget_records(&mut self, count: usize) {
        self.moments.iter_mut().for_each(|moment| moment.records -= count);
    }

    /// The instructions done at the last moment that has fewer than so many.
    pub fn before(&self, instructions: u64) -> Option<u64> {
        self.number_before(instructions).map(|number| self.moments[number].instructions)
    }

    fn number_before(&self, instructions: u64) -> Option<usize> {
        self.moments.iter().rposition(|moment| moment.instructions < instructions)
    }

    /// Takes the machine to that moment, if there is one; those after it are forgotten.
    pub fn return_before(&mut self, instructions: u64, machine: &mut Machine) {
        let Some(number) = self.number_before(instructions) else { return };
        machine.memory.return_to_mark();
        if number + 1 < self.moments.len() {
            machine.memory.forget_mark();
            for moment in self.moments.range(number..).rev() {
                machine.memory.put_back(&moment.before);
            }
            self.moments.truncate(number + 1);
            machine.memory.mark();
        }
        if let Some(moment) = self.moments.back_mut() {
            moment.before = Before::default();
            let mut kept = machine.state.wiring.recorder.records.take();
            machine.take_state(&moment.mark);
            kept.iter_mut().for_each(|records| records.truncate(moment.records));
            machine.state.wiring.recorder.records = kept;
        }
    }
}

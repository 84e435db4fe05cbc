//! Several moments to which a machine can return, and runs to where a record comes from.
//!
//! The machine knows one mark; for moments before the last there is what memory was, page by page,
//! before it changed on the way to the next. To return to a moment forgets those after it.

use crate::Outcome;
use crate::machine::Machine;
use crate::mark::Mark;
use crate::schedule::Limits;
use arch::time::Picoseconds;
use bus::Before;
use trace::Record;

/// Virtual time of the first stretch in which a record is looked for, and of the longest.
const STRETCH: Picoseconds = Picoseconds::from_milliseconds(1);
const LONGEST_STRETCH: Picoseconds = Picoseconds::from_milliseconds(16);

struct Moment {
    mark: Mark,
    /// What changed from here to the next moment; after the last, to the machine's own mark.
    before: Before,
}

/// The moments of one machine, the oldest first. Nobody else may mark it meanwhile.
#[derive(Default)]
pub struct Marks {
    moments: Vec<Moment>,
}

/// How a run ended that looked for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sought {
    /// The machine's end, if it came.
    pub outcome: Option<Outcome>,
    /// The record, if it was met: the processor stands behind the instruction it comes from.
    pub record: Option<Record>,
}

impl Marks {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.moments.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.moments.is_empty()
    }

    /// Bytes of changed memory that are kept for all except the last, in about.
    pub fn size(&self) -> usize {
        self.moments.iter().map(|moment| moment.before.size()).sum()
    }

    /// Keeps this moment; its number is how many there were.
    pub fn push(&mut self, machine: &mut Machine) {
        let until_now = machine.memory.leave_mark();
        if let Some(last) = self.moments.last_mut() {
            last.before.extend(until_now);
        }
        let mark = machine.mark();
        self.moments.push(Moment { mark, before: Before::default() });
    }

    /// The machine is as it was at a moment, which stays; those after it are forgotten. How many
    /// pages were taken back, some perhaps twice; `None` if there is no such moment.
    pub fn return_to(&mut self, number: usize, machine: &mut Machine) -> Option<usize> {
        self.moments.get(number)?;
        let mut pages = machine.memory.return_to_mark();
        let is_mark_at_moment =
            number + 1 == self.moments.len() && self.moments[number].before.pages() == 0;
        if !is_mark_at_moment {
            machine.memory.forget_mark();
            for moment in self.moments[number..].iter().rev() {
                machine.memory.put_back(&moment.before);
                pages += moment.before.pages();
            }
            self.moments.truncate(number + 1);
            self.moments[number].before = Before::default();
            machine.memory.mark();
        }
        machine.take_state(&self.moments[number].mark);
        Some(pages)
    }

    /// Forgets a moment and those after it; the machine stays as it is.
    pub fn forget(&mut self, number: usize, machine: &mut Machine) {
        if number >= self.moments.len() {
            return;
        }
        let until_now = machine.memory.leave_mark();
        let gone = self.moments.split_off(number);
        if let Some(last) = self.moments.last_mut() {
            gone.into_iter().for_each(|moment| last.before.extend(moment.before));
            last.before.extend(until_now);
            machine.memory.mark();
        }
    }

    /// Runs until a record is met, the limits, or the end that `is_over` wants. All records go to
    /// `sink`, once each and in order; `is_it` is asked likewise. The run is the one that would
    /// have been without.
    pub fn run_to_record(
        &mut self,
        machine: &mut Machine,
        limits: Limits,
        is_it: &mut dyn FnMut(&Record) -> bool,
        sink: &mut dyn FnMut(Vec<Record>),
        is_over: &mut dyn FnMut() -> bool,
    ) -> Sought {
        let mut stretch = STRETCH;
        loop {
            let begin = self.len();
            machine.state.wiring.recorder.records = Some(Vec::new());
            self.push(machine);
            let until = limits.until.min(machine.state.now.saturating_add(stretch));
            let outcome = machine.run(Limits { until, ..limits });
            let records = machine.state.wiring.recorder.records.take().unwrap_or_default();
            if let Some(place) = records.iter().position(&mut *is_it) {
                self.return_to(begin, machine);
                self.forget(begin, machine);
                machine.state.wiring.recorder.records = Some(Vec::new());
                let outcome =
                    run_behind(machine, Limits { until, ..limits }, &records[place], place);
                sink(machine.state.wiring.recorder.records.replace(Vec::new()).unwrap_or_default());
                return Sought { outcome, record: Some(records[place]) };
            }
            self.forget(begin, machine);
            machine.state.wiring.recorder.records = Some(Vec::new());
            sink(records);
            let is_done = machine.state.now >= limits.until
                || machine.instructions() >= limits.instructions
                || outcome.is_some();
            if is_done || is_over() {
                return Sought { outcome, record: None };
            }
            stretch = Picoseconds(stretch.0 * 2).min(LONGEST_STRETCH);
        }
    }
}

/// Runs the same stretch again, to the instruction that its record at `place` comes from.
fn run_behind(
    machine: &mut Machine,
    limits: Limits,
    record: &Record,
    place: usize,
) -> Option<Outcome> {
    let mut outcome = machine.run(Limits { until: record.at.min(limits.until), ..limits });
    while outcome.is_none() && records(machine) <= place {
        let instructions = machine.instructions().saturating_add(1).min(limits.instructions);
        let (now, done) = (machine.state.now, machine.instructions());
        outcome = machine.run(Limits { until: limits.until, instructions });
        if (machine.state.now, machine.instructions()) == (now, done) && now >= limits.until {
            break;
        }
    }
    outcome
}

fn records(machine: &Machine) -> usize {
    machine.state.wiring.recorder.records.as_ref().map_or(0, Vec::len)
}

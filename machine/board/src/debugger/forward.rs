//! Running to points: at full speed to an instruction, and to what is seen only when it has
//! happened by doing the stretch again up to there.

use super::machine::DebuggedMachine;
use super::{Debuggee, Stop, StopPoint};
use crate::Machine;
use crate::schedule::Limits;
use arch::identity::CpuIndex;
use arch::time::Picoseconds;

/// Virtual time of one stretch.
const STRETCH: Picoseconds = Picoseconds::from_milliseconds(2);
/// Instructions of one stretch of a processor that runs alone.
const INSTRUCTIONS_ALONE: u32 = 20_000;
/// Instructions that are executed one at a time first where accesses are looked for: some come
/// often.
const NEAREST: u32 = 2_000;
/// Instructions between two looks whether the caller wants an end.
const LOOK: u64 = 10_000;
/// Virtual time between two such looks, where none has to be looked at.
const LOOK_TIME: Picoseconds = Picoseconds::from_milliseconds(2);

impl Machine {
    /// Runs to one of these points, to the limits, or to the end that `is_over` wants; `None` if
    /// no point was met, nor the machine's end. A point at which a processor stands already is
    /// met when it comes there again. To instructions it runs at full speed, to accesses an
    /// instruction at a time.
    pub fn run_to_points(
        &mut self,
        points: &[StopPoint],
        limits: Limits,
        mut is_over: impl FnMut() -> bool,
    ) -> Option<Stop> {
        let mut debugged = DebuggedMachine::new(self, |_| 0);
        points.iter().for_each(|point| {
            debugged.insert(*point);
        });
        debugged.observe();
        debugged.set_stops(true);
        debugged.machine.state.cpus.iter_mut().for_each(|cpu| cpu.pass_point());
        debugged.forward(limits, &mut is_over)
    }
}

impl DebuggedMachine<'_> {
    fn forward(&mut self, limits: Limits, is_over: &mut dyn FnMut() -> bool) -> Option<Stop> {
        let is_stepped = self.has_looks();
        for done in 1u64.. {
            let now = self.machine.state.now;
            if now >= limits.until
                || self.machine.instructions() >= limits.instructions
                || (!is_stepped || done.is_multiple_of(LOOK)) && is_over()
            {
                return None;
            }
            let (instructions, until) = match is_stepped {
                true => (self.machine.instructions() + 1, limits.until),
                false => (limits.instructions, limits.until.min(now.saturating_add(LOOK_TIME))),
            };
            self.machine.run(Limits { until, instructions });
            let stop = self.ended().or_else(|| self.noticed()).or_else(|| self.at_point());
            if stop.is_some() {
                return stop;
            }
        }
        None
    }

    /// Goes on for a while, to what is looked for.
    pub(super) fn run_stretch(&mut self, only: Option<CpuIndex>) -> Option<Stop> {
        if only.is_some() {
            return (0..INSTRUCTIONS_ALONE).find_map(|_| self.execute_one(only));
        }
        if self.has_looks() {
            let near = (0..NEAREST).find_map(|_| self.execute_one(None));
            if near.is_some() {
                return near;
            }
        }
        let (begin, heard) = (self.machine.instructions(), self.records());
        let until = self.machine.state.now.saturating_add(STRETCH);
        self.machine.run(Limits { until, instructions: u64::MAX });
        let stop = self.ended().or_else(|| self.at_point());
        if !self.has_looks() {
            return stop;
        }
        let end = self.machine.instructions();
        let Some(since) = self.first_seen() else { return stop };
        self.go_to(begin);
        self.hear_from(heard);
        self.set_stops(true);
        self.machine.run(Limits { until: since, instructions: u64::MAX });
        if let Some(stop) = self.noticed() {
            return Some(stop);
        }
        while self.machine.instructions() <= end {
            let stop = self.execute_one(None);
            if stop.is_some() {
                return stop;
            }
        }
        None
    }
}

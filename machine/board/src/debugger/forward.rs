//! Running to points without a past: for those who keep moments of the machine themselves.

use super::{DebuggedMachine, Debuggee, Stop, StopPoint};
use crate::Machine;
use crate::schedule::Limits;

/// Instructions between two looks whether the caller wants an end.
const LOOK: u64 = 10_000;

impl Machine {
    /// Runs to one of these points, to the limits, or to the end that `is_over` wants; `None` if
    /// no point was met, nor the machine's end. A point at which a processor stands already is
    /// met when it comes there again.
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
        debugged.forward(limits, &mut is_over)
    }
}

impl DebuggedMachine<'_> {
    fn forward(&mut self, limits: Limits, is_over: &mut dyn FnMut() -> bool) -> Option<Stop> {
        let begun: Vec<u64> =
            self.machine.state.cpus.iter().map(|cpu| cpu.clock.instructions()).collect();
        for done in 1u64.. {
            if self.machine.state.now >= limits.until
                || self.machine.instructions() >= limits.instructions
                || done.is_multiple_of(LOOK) && is_over()
            {
                return None;
            }
            if let Some(Stop::Execute { cpu }) = self.at_point(None) {
                let index = usize::from(cpu.0);
                let now = self.machine.state.cpus[index].clock.instructions();
                if begun.get(index).is_some_and(|begun| *begun != now) {
                    return Some(Stop::Execute { cpu });
                }
            }
            if let Some(stop) = self.execute_within(limits) {
                return Some(stop);
            }
        }
        None
    }
}

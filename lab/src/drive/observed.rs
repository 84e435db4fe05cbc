//! What became of a step, as both sides saw it.

use crate::drive::counters::Tally;
use crate::drive::example::Examples;
use crate::protocol::{Step, StepResult};
use arch::time::Picoseconds;

/// One step as both sides saw it.
#[derive(Clone, Debug)]
pub struct Observed {
    /// What was to be done.
    pub step: Step,
    /// As the agent told it.
    pub result: StepResult,
    /// The machine's count.
    pub all: Tally,
    /// The same of the part that the guest marked.
    pub window: Option<Tally>,
    /// Interrupts of a step that measured times, as they went.
    pub examples: Option<Examples>,
    /// Virtual time that the step took, module loading included.
    pub time: Picoseconds,
}

impl Observed {
    /// What belongs to the workload: the part that the guest marked, or else all.
    pub fn workload(&self) -> &Tally {
        self.window.as_ref().unwrap_or(&self.all)
    }
}

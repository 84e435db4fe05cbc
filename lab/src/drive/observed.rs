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
    /// What the guest measured under draws of the costs, where that was asked for.
    pub drawn: Vec<Drawn>,
    /// Virtual time that the step took, module loading included.
    pub time: Picoseconds,
}

/// What a guest measured of one of its seeds under costs that were drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Which seed of gaps it was; zero of what is not measured from seeds.
    pub seed: u64,
    /// What the guest printed.
    pub lines: Vec<String>,
}

impl Observed {
    /// What belongs to the workload: the part that the guest marked, or else all.
    pub fn workload(&self) -> &Tally {
        self.window.as_ref().unwrap_or(&self.all)
    }
}

//! What became of a step, as both sides saw it.

use crate::drive::counters::Tally;
use crate::drive::example::Examples;
use crate::drive::under::Under;
use crate::protocol::{Step, StepResult};
use crate::workload::figure::Figure;
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
    /// What the guest measured under other costs, where that was asked for.
    pub drawn: Vec<Drawn>,
    /// Virtual time that the step took, module loading included.
    pub time: Picoseconds,
}

/// What was measured under other costs than those that are likely.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// Which costs.
    pub under: Under,
    /// Of which seed of gaps; zero of a life of the guest that is not measured from seeds.
    pub seed: u64,
    /// What came of it.
    pub figures: Vec<Figure>,
}

impl Observed {
    /// What belongs to the workload: the part that the guest marked, or else all.
    pub fn workload(&self) -> &Tally {
        self.window.as_ref().unwrap_or(&self.all)
    }
}

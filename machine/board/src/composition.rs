//! What a processor's time consists of: how often each costed kind occurred, so that the time is
//! counts times costs, to the picosecond, and can be computed again for other costs without a run.
//!
//! Computed again it is what the same course of events would take. Other costs can change the
//! course, where processors race or wait for each other: a run with them is the check. What passed
//! while a processor was halted is not made of costs and stays as it was; messages lie in that or
//! beside it, so they are counted and no part of the sum.

pub use crate::delivery::Messages;

use crate::cost::CostProfile;
use crate::machine::Machine;
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use cpu::decode::Cost;
use cpu::operation::InstructionCosts;
use cpu::{Classes, CpuModel, Spent, Step, StepCosts};

/// What there is of each kind in a stretch of a processor's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Composition {
    /// Instructions, by class.
    pub instructions: Classes,
    /// What else has a cost.
    pub spent: Spent,
    /// What was sent to the processor.
    pub messages: Messages,
    /// At which clock the elements of strings were priced.
    core_hertz: u64,
}

/// What everything takes: a profile at a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prices {
    instructions: InstructionCosts,
    steps: StepCosts,
    core_hertz: u64,
}

impl CostProfile {
    /// What everything takes on a model at its clock.
    pub fn prices(&self, model: &CpuModel) -> Prices {
        Prices {
            instructions: self.instruction_costs(model),
            steps: self.step_costs(model),
            core_hertz: model.core_hertz(),
        }
    }
}

impl Composition {
    /// What has come since `earlier`, of the same processor.
    pub fn since(&self, earlier: &Self) -> Self {
        let less = |a: u64, b: u64| a.wrapping_sub(b);
        let (now, then) = (&self.spent, &earlier.spent);
        Self {
            instructions: std::array::from_fn(|class| {
                less(self.instructions[class], earlier.instructions[class])
            }),
            spent: Spent {
                steps: std::array::from_fn(|step| less(now.steps[step], then.steps[step])),
                elements: Picoseconds(less(now.elements.0, then.elements.0)),
                waited: Picoseconds(less(now.waited.0, then.waited.0)),
            },
            messages: self.messages.since(&earlier.messages),
            core_hertz: self.core_hertz,
        }
    }

    /// What it takes at these prices.
    pub fn time(&self, prices: &Prices) -> Picoseconds {
        let instructions = self.instructions.iter().zip(&prices.instructions.0);
        let instructions: u64 = instructions.map(|(count, cost)| count * u64::from(*cost)).sum();
        let steps = self.spent.steps.iter().zip(&prices.steps.0);
        let steps: u64 = steps.map(|(count, cost)| count * cost.0).sum();
        let elements = u128::from(self.spent.elements.0) * u128::from(self.core_hertz)
            / u128::from(prices.core_hertz.max(1));
        let waited = self.spent.waited.0;
        Picoseconds(
            instructions.wrapping_add(steps).wrapping_add(elements as u64).wrapping_add(waited),
        )
    }

    /// How many instructions of a class there are.
    pub fn instructions_of(&self, class: Cost) -> u64 {
        self.instructions[class as usize]
    }

    /// How many steps of a kind there are.
    pub fn steps_of(&self, step: Step) -> u64 {
        self.spent.steps[step as usize]
    }
}

impl Machine {
    /// Counts from here on what processors' time consists of; without this, instructions are not
    /// told apart by class. What was decoded is decoded again.
    pub fn count_composition(&mut self) {
        self.cache.count_runs(self.state.cpus.len());
    }

    /// What a processor's time consists of, from some moment on; two of these tell what lies
    /// between. `None` if that is not counted, if software has changed a processor's clock, or if
    /// there is no such processor.
    pub fn composition(&self, cpu: CpuIndex) -> Option<Composition> {
        if !self.clocked.is_empty() {
            return None;
        }
        let index = usize::from(cpu.0);
        let clock = &self.state.cpus.get(index)?.clock;
        Some(Composition {
            instructions: self.cache.executed(cpu)?,
            spent: *clock.spent(),
            messages: *self.state.inboxes.get(index)?.messages(),
            core_hertz: self.state.cpus[index].model.core_hertz(),
        })
    }
}

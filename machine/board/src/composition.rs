//! What a processor's time consists of: how often each costed kind occurred, so that the time is
//! counts times costs, to the picosecond, and can be computed again for other costs without a run.
//!
//! Computed again it is what the same course of events would take. Other costs can change the
//! course, where processors race or wait for each other: a run with them is the check. What passed
//! while a processor was halted is not made of costs and stays as it was; messages lie in that or
//! beside it, so they are counted and no part of the sum.

mod kind;

pub use crate::delivery::Messages;
pub use kind::Kind;

use crate::cost::CostProfile;
use crate::machine::Machine;
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use cpu::decode::Cost;
use cpu::operation::InstructionCosts;
use cpu::{Classes, CpuModel, Spent, StepCosts};

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
        self.prices_at(model.core_hertz())
    }

    /// The same of a core at a clock, in Hz and more than 0.
    pub fn prices_at(&self, core_hertz: u64) -> Prices {
        Prices {
            instructions: self.instruction_costs_at(core_hertz),
            steps: self.step_costs_at(core_hertz),
            core_hertz,
        }
    }
}

impl Prices {
    /// What one of a kind takes.
    pub fn of(&self, kind: Kind) -> Picoseconds {
        match kind {
            Kind::Instruction(class) => Picoseconds(self.instructions.0[class as usize].into()),
            Kind::Step(step) => self.steps.of(step),
        }
    }
}

impl Composition {
    /// Nothing yet, of a processor at a clock, in Hz and more than 0.
    pub fn empty(core_hertz: u64) -> Self {
        Self {
            instructions: [0; Cost::COUNT],
            spent: Spent::default(),
            messages: Messages::default(),
            core_hertz,
        }
    }

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

    /// What it takes at these prices; longer than a clock can tell, modulo 2^64.
    pub fn time(&self, prices: &Prices) -> Picoseconds {
        Picoseconds((self.work(prices) as u64).wrapping_add(self.spent.waited.0))
    }

    /// The same in picoseconds without what was waited. Counts of a file may be any, and come to
    /// more than a clock can tell.
    pub fn work(&self, prices: &Prices) -> u128 {
        let each = |kind| u128::from(self.count(kind)) * u128::from(prices.of(kind).0);
        Kind::all().map(each).fold(self.elements(prices), u128::saturating_add)
    }

    /// What the elements of strings take at these prices, in picoseconds: a core cycle each.
    pub fn elements(&self, prices: &Prices) -> u128 {
        let cycles = u128::from(self.spent.elements.0) * u128::from(self.core_hertz);
        cycles / u128::from(prices.core_hertz.max(1))
    }

    /// How many there are of a kind.
    pub fn count(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Instruction(class) => self.instructions[class as usize],
            Kind::Step(step) => self.spent.steps[step as usize],
        }
    }

    /// The same, to be changed.
    pub fn count_mut(&mut self, kind: Kind) -> &mut u64 {
        match kind {
            Kind::Instruction(class) => &mut self.instructions[class as usize],
            Kind::Step(step) => &mut self.spent.steps[step as usize],
        }
    }

    /// At which clock it ran, in Hz.
    pub const fn core_hertz(&self) -> u64 {
        self.core_hertz
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

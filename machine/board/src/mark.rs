//! Going back in memory: a machine is marked, runs, and is again as it was, for the price of what
//! it has changed. [`crate::snapshot`] does the same by a file, for another process.

use crate::Outcome;
use crate::channel::Channels;
use crate::machine::{Machine, State};
use crate::perturb::{Hold, Perturbation, Source};
use arch::time::Picoseconds;

/// A moment of a machine. Its memory is marked in the machine itself, which knows one mark.
pub struct Mark {
    state: State,
    channels: Channels,
    console: Vec<(u8, u8)>,
    outcome: Option<Outcome>,
    /// By processor: whether what it monitors had not been written.
    armed: Vec<bool>,
}

impl Machine {
    /// This moment, to which the machine can return until the next is marked.
    pub fn mark(&mut self) -> Mark {
        self.memory.mark();
        let cpus = self.state.cpus.iter();
        Mark {
            armed: cpus.map(|cpu| cpu.pending.monitor_is_armed(&self.memory)).collect(),
            state: self.state.clone(),
            channels: self.channels.clone(),
            console: self.console.clone(),
            outcome: self.outcome,
        }
    }

    /// The machine is as it was; how many of its pages had changed. What is left of a perturbation
    /// is dropped.
    pub fn return_to(&mut self, mark: &Mark) -> usize {
        let changed = self.memory.return_to_mark();
        self.take_state(mark);
        changed
    }

    /// The state is as it was; memory is already.
    pub(crate) fn take_state(&mut self, mark: &Mark) {
        self.state.clone_from(&mark.state);
        self.channels.clone_from(&mark.channels);
        self.console.clone_from(&mark.console);
        self.outcome = mark.outcome;
        // For the sake of decoded code a monitored page may have another number than at the mark.
        for (cpu, is_armed) in self.state.cpus.iter_mut().zip(&mark.armed) {
            if *is_armed {
                cpu.pending.arm_monitor_again(&self.memory);
            }
        }
    }

    /// The machine stays as it is and cannot return any more.
    pub fn forget_mark(&mut self) {
        self.memory.forget_mark();
    }

    /// From here on processors are held up, and what others may see of one in between ends its
    /// turn: VM entries and exits, steps of IPIs.
    pub fn perturb(&mut self, source: Source) {
        let clocks: Vec<_> = self.state.cpus.iter().map(|cpu| cpu.clock.now()).collect();
        self.state.cpus.iter_mut().for_each(|cpu| cpu.stands_apart = true);
        self.state.wiring.recorder.perturbation =
            Some(Box::new(Perturbation::new(source, &clocks)));
    }

    /// Nobody is held up any more; steps stay apart.
    pub fn calm(&mut self) {
        if let Some(perturbation) = &mut self.state.wiring.recorder.perturbation {
            perturbation.calm();
        }
    }

    /// The perturbation is over; what was done.
    pub fn settle(&mut self) -> Vec<Hold> {
        self.state.cpus.iter_mut().for_each(|cpu| cpu.stands_apart = false);
        let perturbation = self.state.wiring.recorder.perturbation.take();
        perturbation.map(|one| one.into_log()).unwrap_or_default()
    }

    /// What was done so far, where there is a perturbation.
    pub fn holds(&self) -> Option<&[Hold]> {
        self.state.wiring.recorder.perturbation.as_ref().map(|one| one.log())
    }

    /// For how long, all in all, the processor was held that was held longest, since the
    /// perturbation began.
    pub fn longest_hold(&self) -> Picoseconds {
        let perturbation = self.state.wiring.recorder.perturbation.as_ref();
        perturbation.map_or(Picoseconds::ZERO, |one| one.longest_hold())
    }
}

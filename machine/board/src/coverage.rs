//! Which code was executed, exactly, at the price of a counter for each run of a block.

use crate::machine::Machine;
use arch::address::SystemPhysical;

/// Instructions that were executed one after the other, by whichever processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Covered {
    /// Of the first byte.
    pub at: SystemPhysical,
    /// In bytes.
    pub length: u16,
    /// Up to the one that ended the run: a branch, a fault, a limit, or the decoded block's end.
    pub instructions: u8,
    /// How often a run ended there.
    pub runs: u64,
}

impl Machine {
    /// Keeps from here on which code processors execute. What was decoded is decoded again.
    pub fn count_coverage(&mut self) {
        self.cache.count_coverage(self.state.cpus.len());
    }

    /// What was executed since this was last called, by place; `None` if that is not kept.
    pub fn take_coverage(&mut self) -> Option<Vec<Covered>> {
        let memory = &self.memory;
        let covered = self.cache.take_coverage()?.into_iter().filter_map(|one| {
            let cpu::Covered { offset, length, instructions, runs } = one;
            Some(Covered { at: memory.address(offset)?, length, instructions, runs })
        });
        Some(covered.collect())
    }
}

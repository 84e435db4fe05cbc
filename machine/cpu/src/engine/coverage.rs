//! Which instructions were executed, from the counters of runs.

use std::collections::BTreeMap;

/// Instructions that were executed one after the other, by whichever processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Covered {
    /// Index into RAM of the first byte.
    pub offset: u64,
    /// In bytes.
    pub length: u16,
    /// Up to the one that ended the run: a branch, a fault, a limit, or the block's end.
    pub instructions: u8,
    /// How often a run ended there.
    pub runs: u64,
}

/// Runs by where they began and how many instructions they had: length and count.
#[derive(Debug, Default)]
pub(super) struct Coverage(BTreeMap<(u64, u8), (u16, u64)>);

impl Coverage {
    pub fn add(&mut self, covered: Covered) {
        let Covered { offset, length, instructions, runs } = covered;
        let known = self.0.entry((offset, instructions)).or_insert((length, 0));
        known.1 = known.1.saturating_add(runs);
    }

    /// All of it, by place; nothing is left.
    pub fn take(&mut self) -> Vec<Covered> {
        std::mem::take(&mut self.0)
            .into_iter()
            .map(|((offset, instructions), (length, runs))| Covered {
                offset,
                length,
                instructions,
                runs,
            })
            .collect()
    }
}

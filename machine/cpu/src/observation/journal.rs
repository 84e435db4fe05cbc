//! A journal of what some code does to memory, for who wants to know where two processors meet.

use crate::memory::Pages;
use arch::address::Linear;
use arch::time::Picoseconds;
use std::ops::Range;

/// Whose accesses are noted, and of what memory, by linear address.
#[derive(Clone, Debug)]
pub struct Interest {
    /// Of these instructions, each range apart from the others.
    pub code: Vec<Range<u64>>,
    /// Of the pages of these bytes.
    pub data: Vec<Range<u64>>,
}

/// An access to RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// When its instruction began, on the processor's clock.
    pub at: Picoseconds,
    /// The instruction.
    pub rip: Linear,
    /// The stack pointer, which tells threads apart.
    pub stack: Linear,
    /// The first byte.
    pub linear: Linear,
    /// Its index into RAM.
    pub place: u64,
    /// What was there before, of the first eight bytes at most.
    pub found: u64,
    /// Otherwise it was a read.
    pub is_write: bool,
}

/// What is noted, and of what.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    /// Its code is in order.
    interest: Interest,
    pub touches: Vec<Touch>,
}

impl Journal {
    pub fn of(mut interest: Interest) -> Self {
        interest.code.retain(|range| !range.is_empty());
        interest.code.sort_by_key(|range| range.start);
        Self { interest, touches: Vec::new() }
    }

    /// Whether any of these bytes are of the code.
    pub fn is_of(&self, start: u64, length: u64) -> bool {
        let code = &self.interest.code;
        let next = code.partition_point(|range| range.end <= start);
        code.get(next).is_some_and(|range| range.start < start.saturating_add(length))
    }

    /// The code is executed by single instructions, so that times are exact; the data are not
    /// accessed unseen.
    pub fn pages(&self) -> Vec<Pages> {
        let pages = |range: &Range<u64>, is_data| {
            let (first, last) = (range.start, range.end.saturating_sub(1));
            Pages { first, last, is_data }
        };
        let code = self.interest.code.iter().map(|range| pages(range, false));
        let data = self.interest.data.iter().map(|range| pages(range, true));
        code.chain(data).collect()
    }
}

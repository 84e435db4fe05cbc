//! Watchpoints of a debugger outside the machine: the guest neither sees nor changes them.

use crate::memory::Access;
use arch::address::Linear;

/// Bytes to observe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first byte.
    pub start: Linear,
    /// In bytes.
    pub length: u64,
    /// Reads are of interest.
    pub reads: bool,
    /// Writes are of interest.
    pub writes: bool,
}

/// An access to bytes that are observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The range that was touched.
    pub range: Range,
    /// Otherwise it was a read.
    pub is_write: bool,
}

/// What is observed, and the last access that was.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    ranges: Vec<Range>,
    seen: Option<Observed>,
}

impl Observation {
    /// Of these bytes, of which nothing has been touched yet.
    pub(crate) fn of(ranges: Vec<Range>) -> Self {
        Self { ranges, seen: None }
    }

    /// Nothing is observed: accesses keep their fast path.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The first access since the last call.
    pub fn take(&mut self) -> Option<Observed> {
        self.seen.take()
    }

    pub(crate) fn note(&mut self, linear: u64, size: usize, access: Access) {
        let is_write = access == Access::Write;
        let hit = self.ranges.iter().find(|range| {
            let wanted = if is_write { range.writes } else { range.reads };
            let start = range.start.0;
            wanted
                && linear < start.wrapping_add(range.length)
                && start < linear.wrapping_add(size as u64)
        });
        if let Some(range) = hit {
            self.seen.get_or_insert(Observed { range: *range, is_write });
        }
    }
}

//! Watchpoints of a debugger outside the machine: the guest neither sees nor changes them.

use crate::Cpu;
use crate::memory::Access;
use arch::address::Linear;
use arch::control::rflags;

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

impl Cpu {
    /// Observes these bytes from now on, and no others. Instructions of strings, which access
    /// memory in one go, are seen by their first bytes.
    pub fn observe(&mut self, ranges: Vec<Range>) {
        self.observation = Observation { ranges, seen: None };
        self.update_access_mode();
    }

    /// Sets RFLAGS as a debugger may: everything but VM and the reserved bits.
    pub fn debug_set_flags(&mut self, value: u64) {
        self.write_flags(value, rflags::ALL & !(rflags::VM | rflags::FIXED));
    }
}

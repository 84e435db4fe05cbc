//! Points of a debugger outside the machine: the guest neither sees nor changes them.
//!
//! Pages with such points are withheld by the TLB, so that nothing is done to them unseen; all
//! other code and data keep their fast paths.

mod journal;

pub use journal::{Interest, Touch};

use crate::memory::{Access, Pages};
use arch::address::Linear;
use arch::time::Picoseconds;
use journal::Journal;

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
    /// No later than the instruction began, on the processor's clock.
    pub since: Picoseconds,
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
    /// Instructions, by linear address, in order.
    points: Vec<u64>,
    is_reached: bool,
    /// A run ends where one of them would be executed next.
    stops: bool,
    /// Where the processor stands and goes on nevertheless: the instruction, and how many it has
    /// executed.
    passed: Option<(u64, u64)>,
    /// Of what some code does to memory, if it is wanted.
    journal: Option<Journal>,
}

impl Observation {
    /// Of these bytes and instructions, to which nothing has happened yet.
    pub(crate) fn of(ranges: Vec<Range>, points: &[Linear]) -> Self {
        let mut points: Vec<u64> = points.iter().map(|at| at.0).collect();
        points.sort_unstable();
        Self { ranges, points, ..Self::default() }
    }

    /// Of nothing but what some code does to memory.
    pub(crate) fn journal_of(interest: Interest) -> Self {
        Self { journal: Some(Journal::of(interest)), ..Self::default() }
    }

    /// The pages that must not be accessed or fetched from unseen.
    pub(crate) fn pages(&self) -> Vec<Pages> {
        let ranges = self.ranges.iter().filter(|range| range.length != 0).map(|range| {
            let last = range.start.0.saturating_add(range.length - 1);
            Pages { first: range.start.0, last, is_data: true }
        });
        let points = self.points.iter().map(|at| Pages { first: *at, last: *at, is_data: false });
        let journal = self.journal.iter().flat_map(Journal::pages);
        ranges.chain(points).chain(journal).collect()
    }

    /// No access is of interest.
    pub(crate) fn has_no_ranges(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether instructions are observed.
    #[inline(always)]
    pub(crate) fn has_points(&self) -> bool {
        !self.points.is_empty() || self.journal.is_some()
    }

    /// Whether one begins among these bytes: of code of which a journal is kept each does.
    pub(crate) fn has_point_in(&self, start: u64, length: u64) -> bool {
        let next = self.points.partition_point(|at| *at < start);
        self.points.get(next).is_some_and(|at| *at - start < length)
            || self.journal.as_ref().is_some_and(|journal| journal.is_of(start, length))
    }

    /// Whether accesses are noted that this instruction makes.
    pub(crate) fn keeps_journal_of(&self, linear: u64) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.is_of(linear, 1))
    }

    pub(crate) fn note_touch(&mut self, touch: Touch) {
        if let Some(journal) = &mut self.journal {
            journal.touches.push(touch);
        }
    }

    /// What was noted since the last call, in order of time.
    pub fn take_touches(&mut self) -> Vec<Touch> {
        self.journal.as_mut().map(|one| std::mem::take(&mut one.touches)).unwrap_or_default()
    }

    /// The processor stands at an instruction, and goes on.
    pub(crate) fn note_place(&mut self, linear: u64) {
        self.is_reached |= self.points.binary_search(&linear).is_ok();
    }

    pub(crate) fn set_stops(&mut self, stops: bool) {
        self.stops = stops;
        self.passed = None;
    }

    pub(crate) fn pass(&mut self, linear: u64, executed: u64) {
        self.passed = Some((linear, executed));
    }

    /// Whether runs end before instructions.
    #[inline(always)]
    pub(crate) fn stops(&self) -> bool {
        self.stops
    }

    /// Whether the run ends before this instruction, of a processor that has executed so many.
    #[inline(always)]
    pub(crate) fn stops_at(&self, linear: u64, executed: u64) -> bool {
        self.stops
            && self.passed != Some((linear, executed))
            && self.points.binary_search(&linear).is_ok()
    }

    /// Whether an observed instruction was come to since the last call.
    pub fn take_reached(&mut self) -> bool {
        std::mem::take(&mut self.is_reached)
    }

    /// The first access since the last call.
    pub fn take(&mut self) -> Option<Observed> {
        self.seen.take()
    }

    pub(crate) fn note(&mut self, since: Picoseconds, linear: u64, size: usize, access: Access) {
        let is_write = access == Access::Write;
        let hit = self.ranges.iter().find(|range| {
            let wanted = if is_write { range.writes } else { range.reads };
            let start = range.start.0;
            wanted
                && linear < start.wrapping_add(range.length)
                && start < linear.wrapping_add(size as u64)
        });
        if let Some(range) = hit {
            self.seen.get_or_insert(Observed { since, range: *range, is_write });
        }
    }
}

//! Which usable RAM is still free.

use crate::firmware::{MemoryKind, MemoryRegion};
use std::ops::Range;

/// Free ranges, sorted and disjoint.
pub(super) struct Placement {
    free: Vec<Range<u64>>,
}

impl Placement {
    pub fn new(map: &[MemoryRegion]) -> Self {
        let usable = map.iter().filter(|region| region.kind == MemoryKind::Usable);
        let mut free: Vec<_> =
            usable.map(|region| region.start..region.start + region.length).collect();
        free.sort_by_key(|range| range.start);
        Self { free }
    }

    /// Takes `[start, start + size)` out of the free ranges; false if any of it is not free.
    pub fn claim(&mut self, start: u64, size: u64) -> bool {
        let Some(end) = start.checked_add(size) else { return false };
        if size == 0 {
            return true;
        }
        let Some(index) =
            self.free.iter().position(|range| range.start <= start && end <= range.end)
        else {
            return false;
        };
        let range = self.free.remove(index);
        let rest = [range.start..start, end..range.end];
        let rest = rest.into_iter().filter(|range| !range.is_empty());
        self.free.splice(index..index, rest);
        true
    }

    /// Bytes of the largest free range inside `window`.
    pub fn largest(&self, window: &Range<u64>) -> u64 {
        let inside = self
            .free
            .iter()
            .map(|range| range.end.min(window.end).saturating_sub(range.start.max(window.start)));
        inside.max().unwrap_or(0)
    }

    /// The lowest aligned place inside `window`, taken.
    pub fn lowest(&mut self, size: u64, align: u64, window: Range<u64>) -> Option<u64> {
        let size = size.max(1);
        let start = self.free.iter().find_map(|range| {
            let start = range.start.max(window.start).checked_next_multiple_of(align)?;
            (start.checked_add(size)? <= range.end.min(window.end)).then_some(start)
        })?;
        self.claim(start, size);
        Some(start)
    }

    /// The highest aligned place inside `window`, taken.
    pub fn highest(&mut self, size: u64, align: u64, window: Range<u64>) -> Option<u64> {
        let size = size.max(1);
        let start = self.free.iter().rev().find_map(|range| {
            let start = range.end.min(window.end).checked_sub(size)? / align * align;
            (start >= range.start.max(window.start)).then_some(start)
        })?;
        self.claim(start, size);
        Some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> Placement {
        let usable = |start, length| MemoryRegion { start, length, kind: MemoryKind::Usable };
        Placement::new(&[usable(0x10_0000, 0x10_0000), usable(0, 0x9_F000)])
    }

    #[test]
    fn a_claim_must_lie_in_free_ram_and_is_free_only_once() {
        let rows = [
            (0x1000, 0x1000, true),
            (0x1800, 0x1000, false),
            (0x9_E000, 0x2000, false),
            (0xA_0000, 0x10, false),
            (u64::MAX, 2, false),
            (0x1F_F000, 0x1000, true),
            (0x1F_F000, 1, false),
            (0x1F_F000, 0, true),
        ];
        let mut placement = map();
        for (start, size, expected) in rows {
            assert_eq!(placement.claim(start, size), expected, "{start:#x}+{size:#x}");
        }
    }

    #[test]
    fn lowest_and_highest_respect_window_and_alignment() {
        let mut placement = map();
        assert_eq!(placement.largest(&(0..u64::MAX)), 0x10_0000);
        assert_eq!(placement.largest(&(0x9_0000..0x10_1000)), 0x9_F000 - 0x9_0000);
        assert_eq!(placement.largest(&(0xA_0000..0x10_0000)), 0);
        assert_eq!(placement.lowest(0x1001, 0x1000, 0x7001..u64::MAX), Some(0x8000));
        assert_eq!(placement.lowest(0x1000, 0x1000, 0x7001..u64::MAX), Some(0xA000));
        assert_eq!(placement.highest(0x1800, 0x1000, 0..0x12_0000), Some(0x11_E000));
        assert_eq!(placement.highest(0x10_0000, 0x1000, 0..u64::MAX), None);
        assert_eq!(placement.lowest(0xA_0000, 0x1000, 0..u64::MAX), Some(0x12_0000));
    }
}

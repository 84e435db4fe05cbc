//! What hardware writes to memory, for a debugger outside the machine: instructions' accesses are
//! seen where they are translated, these are made by address.

use crate::{GuestMemory, Initiator};
use arch::address::SystemPhysical;
use arch::identity::RequesterId;
use arch::time::Picoseconds;

/// Bytes of a range whose values are told.
const TOLD: usize = 8;

/// What kind of hardware writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// Accessed and dirty bits.
    PageWalk,
    /// State saved in a VMCB or VMCS.
    ControlBlock,
    /// Virtual APICs, posted interrupts, IOMMUs.
    Interrupts,
    /// A function's access.
    Device(RequesterId),
    /// Another.
    Other,
}

/// A write by hardware to bytes that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardwareWrite {
    /// What kind of hardware.
    pub author: Author,
    /// Whose turn it was.
    pub during: Initiator,
    /// When that had begun.
    pub since: Picoseconds,
    /// Which of the ranges.
    pub range: usize,
    /// The first bytes of the range before.
    pub old: u64,
    /// And after.
    pub new: u64,
}

/// The bytes that are watched, and the first write to them.
#[derive(Debug)]
pub struct Probe {
    /// Indexes into RAM, and lengths.
    ranges: Vec<(usize, usize)>,
    /// Whose turn it is.
    during: Initiator,
    since: Picoseconds,
    seen: Option<HardwareWrite>,
}

impl GuestMemory {
    /// Watches these bytes from now on, and no others. What is not RAM is left out, and keeps its
    /// number.
    pub fn probe(&mut self, ranges: &[(SystemPhysical, u64)]) {
        let in_ram = |(at, length): &(SystemPhysical, u64)| {
            let length = (*length).min(1 << 30) as usize;
            let is_ram = self.slice(*at, length).is_ok();
            self.offset(*at).filter(|_| is_ram).map_or((0, 0), |at| (at, length))
        };
        let ranges: Vec<_> = ranges.iter().map(in_ram).collect();
        let is_empty = ranges.iter().all(|(_, length)| *length == 0);
        let (during, since, seen) = (Initiator::Board, Picoseconds::ZERO, None);
        self.probe = (!is_empty).then(|| Box::new(Probe { ranges, during, since, seen }));
    }

    /// Whose turn it is from now on.
    #[inline(always)]
    pub fn begin_probe(&mut self, during: Initiator, since: Picoseconds) {
        if let Some(probe) = &mut self.probe {
            (probe.during, probe.since) = (during, since);
        }
    }

    /// Whether a debugger wants to know what writes.
    pub fn is_probed(&self) -> bool {
        self.probe.is_some()
    }

    /// The first write since the last call.
    pub fn take_probed(&mut self) -> Option<HardwareWrite> {
        self.probe.as_mut()?.seen.take()
    }

    /// Whether bytes are watched that a write is about to change.
    #[inline(always)]
    pub(crate) fn look_before(&self, start: usize, length: usize) -> Option<(usize, u64)> {
        self.probe.as_ref().and_then(|probe| probe.hit(&self.ram, start, length))
    }

    #[cold]
    pub(crate) fn look_behind(&mut self, author: Author, (range, old): (usize, u64)) {
        let Some(probe) = &mut self.probe else { return };
        let new = probe.value(&self.ram, range);
        // Of a block one knows what it changed, not what it wrote.
        if author == Author::ControlBlock && new == old {
            return;
        }
        let (during, since) = (probe.during, probe.since);
        probe.seen.get_or_insert(HardwareWrite { author, during, since, range, old, new });
    }
}

impl Probe {
    #[cold]
    fn hit(&self, ram: &[u8], start: usize, length: usize) -> Option<(usize, u64)> {
        let is_hit = |(at, bytes): &(usize, usize)| *at < start + length && start < at + bytes;
        let range = self.ranges.iter().position(is_hit)?;
        Some((range, self.value(ram, range)))
    }

    fn value(&self, ram: &[u8], range: usize) -> u64 {
        let (at, length) = self.ranges[range];
        let bytes = &ram[at..at + length.min(TOLD)];
        bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_write_to_watched_bytes_is_told_and_others_are_not() {
        let mut memory = GuestMemory::new(1 << 16);
        let device = Author::Device(RequesterId(8));
        memory.probe(&[(SystemPhysical(1 << 40), 8), (SystemPhysical(0x1004), 4)]);
        let (during, since) = (Initiator::Board, Picoseconds(7));
        memory.begin_probe(during, since);
        for (at, length, author, seen) in [
            (0x1000, 4, device, None),
            (0x1008, 4, device, None),
            (0x1002, 4, device, Some((0, 0x0101))),
            (0x1004, 0, device, None),
            (0x1007, 8, Author::PageWalk, Some((0x0101, 0x0100_0101))),
            (0x1007, 1, Author::Other, Some((0x0100_0101, 0x0100_0101))),
        ] {
            memory.write_by(author, SystemPhysical(at), &[1; 8][..length]).expect("RAM");
            let wanted =
                seen.map(|(old, new)| HardwareWrite { author, during, since, range: 1, old, new });
            assert_eq!(memory.take_probed(), wanted, "{at:#x}");
        }
        for (value, new) in [(1, None), (2, Some(2))] {
            memory.change_by(Author::ControlBlock, 0x1000, 0x40, |block| block[4] = value);
            assert_eq!(memory.take_probed().map(|write| write.new & 0xFF), new);
        }
        memory.probe(&[(SystemPhysical(1 << 40), 8)]);
        assert!(memory.probe.is_none(), "there is nothing to watch");
    }
}

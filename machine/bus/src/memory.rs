//! Guest memory: RAM below and above the hole under 4 GiB, read-only memory at the hole's end, and
//! a record of which cache lines hold code that has been decoded.

use crate::probe::{Author, Probe};
use crate::stamp::Stamp;
use crate::store_buffer::StoreBuffer;
use crate::undo::Undo;
use arch::address::{PAGE_SIZE, SystemPhysical};

/// First address of the hole for devices.
pub const HOLE_START: u64 = 0xC000_0000;
/// First address above the hole.
pub const HOLE_END: u64 = 0x1_0000_0000;
/// From so much RAM on, a machine with read-only memory has what lies beyond [`CROWDED_LOW`] above
/// 4 GiB: its firmware lays out the addresses between by itself, down to this one.
const CROWDED: u64 = 0xB000_0000;
const CROWDED_LOW: u64 = 0x8000_0000;

/// An address range that is not RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// Of its first byte.
    pub address: SystemPhysical,
    /// Bytes.
    pub length: u64,
}

/// Where RAM lies: `[0, low)` and `[4 GiB, 4 GiB + high)`. Read-only memory ends at 4 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLayout {
    /// Bytes below the hole.
    pub low: u64,
    /// Bytes from 4 GiB on.
    pub high: u64,
    /// Bytes up to 4 GiB that processors can read and execute, and nobody can write.
    pub read_only: u64,
}

impl MemoryLayout {
    /// Splits `size` bytes (rounded down to pages) around the hole.
    pub const fn new(size: u64) -> Self {
        let size = size & !(PAGE_SIZE - 1);
        let low = if size < HOLE_START { size } else { HOLE_START };
        Self { low, high: size - low, read_only: 0 }
    }

    /// The same with `read_only` bytes, whole pages, below 4 GiB.
    pub const fn with_read_only(size: u64, read_only: u64) -> Self {
        if read_only == 0 {
            return Self::new(size);
        }
        let size = size & !(PAGE_SIZE - 1);
        let low = if size < CROWDED { size } else { CROWDED_LOW };
        Self { low, high: size - low, read_only: read_only & !(PAGE_SIZE - 1) }
    }

    /// Bytes of RAM.
    pub const fn ram(&self) -> u64 {
        self.low + self.high
    }
}

/// RAM. Host pages are allocated by the host when first touched.
pub struct GuestMemory {
    layout: MemoryLayout,
    /// All RAM, the part above 4 GiB following the part below, and then what is read-only.
    pub ram: Vec<u8>,
    /// Per 4 KiB page, a bit per 64-byte line that holds decoded code or is monitored.
    pub watched_lines: Vec<u64>,
    /// Per 4 KiB page, counts the writes to watched lines, up to the last number there is.
    pub generations: Vec<u32>,
    /// Counts the writes to watched lines of any page.
    pub watched_writes: u64,
    /// Changes where lines of a page are watched of which none was.
    pub watches: Stamp,
    /// What takes memory back to a mark, while there is one.
    pub(crate) undo: Option<Box<Undo>>,
    /// The stores that only the processor sees that runs, where stores are kept.
    pub(crate) lent: Option<StoreBuffer>,
    /// Whether the bytes beneath a write are wanted before it: there is a mark, or stores are kept.
    is_recorded: bool,
    /// What a debugger wants to know hardware's writes to.
    pub(crate) probe: Option<Box<Probe>>,
}

/// The host cannot give a machine as much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostMemoryExhausted {
    /// Bytes.
    pub size: u64,
}

impl GuestMemory {
    /// As [`GuestMemory::new`], refused where the host would abort the program.
    pub fn allocate(layout: MemoryLayout) -> Result<Self, HostMemoryExhausted> {
        let size = layout.ram();
        let refused = HostMemoryExhausted { size };
        let bytes = usize::try_from(size).map_err(|_| refused)?;
        // Reserved and given back: what follows asks for zeroed pages, which cannot be refused.
        let mut reserved = Vec::<u8>::new();
        reserved.try_reserve_exact(bytes).map_err(|_| refused)?;
        drop(std::hint::black_box(reserved));
        Ok(Self::of(layout))
    }

    /// `size` bytes, rounded down to pages, all zero.
    pub fn new(size: u64) -> Self {
        Self::of(MemoryLayout::new(size))
    }

    fn of(layout: MemoryLayout) -> Self {
        let bytes = (layout.ram() + layout.read_only) as usize;
        let pages = bytes / PAGE_SIZE as usize;
        Self {
            layout,
            ram: vec![0; bytes],
            watched_lines: vec![0; pages],
            generations: vec![0; pages],
            watched_writes: 0,
            watches: Stamp::default(),
            undo: None,
            lent: None,
            is_recorded: false,
            probe: None,
        }
    }

    /// Where the RAM lies.
    pub fn layout(&self) -> MemoryLayout {
        self.layout
    }

    /// The index into `ram` of an address, if it is RAM or read-only memory.
    #[inline]
    pub fn offset(&self, address: SystemPhysical) -> Option<usize> {
        if address.0 < self.layout.low {
            Some(address.0 as usize)
        } else if address.0 >= HOLE_END {
            let above = address.0 - HOLE_END;
            (above < self.layout.high).then_some((above + self.layout.low) as usize)
        } else {
            let back = HOLE_END - address.0;
            (back <= self.layout.read_only)
                .then(|| (self.layout.ram() + self.layout.read_only - back) as usize)
        }
    }

    /// The same of an address that can be written.
    #[inline]
    pub fn writable_offset(&self, address: SystemPhysical) -> Option<usize> {
        self.offset(address).filter(|offset| !self.is_read_only(*offset))
    }

    /// Whether an index into `ram` is of read-only memory.
    #[inline]
    pub fn is_read_only(&self, offset: usize) -> bool {
        offset as u64 >= self.layout.ram()
    }

    /// Fills the read-only memory, as who makes the machine does.
    pub fn set_read_only(&mut self, bytes: &[u8]) {
        let start = self.layout.ram() as usize;
        let length = bytes.len().min(self.ram.len() - start);
        self.ram[start..start + length].copy_from_slice(&bytes[..length]);
    }

    /// The address of an index into `ram`, for reports.
    pub fn address(&self, offset: u64) -> Option<SystemPhysical> {
        let layout = self.layout;
        let address = if offset < layout.low {
            offset
        } else if offset < layout.ram() {
            HOLE_END + (offset - layout.low)
        } else {
            (HOLE_END - layout.read_only) + (offset - layout.ram())
        };
        (offset < self.ram.len() as u64).then_some(SystemPhysical(address))
    }

    #[inline]
    fn range(
        &self,
        address: SystemPhysical,
        length: usize,
    ) -> Result<core::ops::Range<usize>, OutOfRange> {
        let error = OutOfRange { address, length: length as u64 };
        let start = self.offset(address).ok_or(error)?;
        if length > 1 {
            let last = address.0.checked_add(length as u64 - 1).ok_or(error)?;
            let end = self.offset(SystemPhysical(last)).ok_or(error)?;
            if end.wrapping_sub(start) != length - 1 || (address.0 < HOLE_END) != (last < HOLE_END)
            {
                return Err(error);
            }
        }
        Ok(start..start + length)
    }

    /// The bytes of a range that lies wholly in RAM.
    #[inline]
    pub fn slice(&self, address: SystemPhysical, length: usize) -> Result<&[u8], OutOfRange> {
        Ok(&self.ram[self.range(address, length)?])
    }

    /// Reads a range that lies wholly in RAM.
    pub fn read(&self, address: SystemPhysical, into: &mut [u8]) -> Result<(), OutOfRange> {
        into.copy_from_slice(self.slice(address, into.len())?);
        Ok(())
    }

    /// Writes by anyone but a processor's fast path; decoded code in the range is forgotten.
    pub fn write(&mut self, address: SystemPhysical, from: &[u8]) -> Result<(), OutOfRange> {
        self.write_by(Author::Other, address, from)
    }

    /// The same, with who writes.
    pub fn write_by(
        &mut self,
        author: Author,
        address: SystemPhysical,
        from: &[u8],
    ) -> Result<(), OutOfRange> {
        let range = self.range(address, from.len())?;
        if self.is_read_only(range.start) {
            return Err(OutOfRange { address, length: from.len() as u64 });
        }
        self.change_by(author, range.start, range.len(), |bytes| bytes.copy_from_slice(from));
        Ok(())
    }

    /// Has `fill` write a range that lies wholly in RAM: what it answers.
    pub fn write_with<T>(
        &mut self,
        address: SystemPhysical,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, OutOfRange> {
        let range = self.range(address, length)?;
        let mut answer = None;
        self.change_by(Author::Other, range.start, length, |bytes| answer = Some(fill(bytes)));
        answer.ok_or(OutOfRange { address, length: length as u64 })
    }

    /// Changes the bytes `[offset, offset + length)`, unless they are read-only.
    #[inline]
    pub fn change_by(
        &mut self,
        author: Author,
        offset: usize,
        length: usize,
        change: impl FnOnce(&mut [u8]),
    ) {
        if self.is_read_only(offset) {
            return;
        }
        let watched = self.look_before(offset, length);
        if self.is_recorded {
            self.publish_stores();
            self.save_before_change(offset, length);
        }
        let Some(bytes) = self.ram.get_mut(offset..offset + length) else { return };
        change(bytes);
        if length != 0 {
            self.note_write(offset, length);
        }
        if let Some(watched) = watched {
            self.look_behind(author, watched);
        }
    }

    /// Little-endian, at any alignment.
    #[inline]
    pub fn read_u32(&self, address: SystemPhysical) -> Result<u32, OutOfRange> {
        Ok(u32::from_le_bytes(self.array(address)?))
    }

    /// Little-endian, at any alignment.
    #[inline]
    pub fn read_u64(&self, address: SystemPhysical) -> Result<u64, OutOfRange> {
        Ok(u64::from_le_bytes(self.array(address)?))
    }

    #[inline]
    fn array<const N: usize>(&self, address: SystemPhysical) -> Result<[u8; N], OutOfRange> {
        let bytes = self.slice(address, N)?;
        bytes.first_chunk().copied().ok_or(OutOfRange { address, length: N as u64 })
    }

    /// Marks the lines of `[offset, offset + length)` (an index into `ram`) as watched.
    pub fn watch(&mut self, offset: usize, length: usize) {
        self.publish_lines(offset, length.max(1));
        self.save_before_change(offset, length.max(1));
        for line in offset / 64..=(offset + length.max(1) - 1) / 64 {
            if self.watched_lines[line / 64] == 0 {
                self.watches.change();
            }
            self.watched_lines[line / 64] |= 1 << (line % 64);
        }
    }

    /// What is remembered with something made of a page's bytes: it is as it was while this is the
    /// page's generation. Where they have been used up, one that no page has any more: such a page
    /// has always changed.
    #[inline]
    pub fn generation_to_remember(&self, page: usize) -> u32 {
        match self.generations[page] {
            u32::MAX => 0,
            generation => generation,
        }
    }

    /// The bytes `[offset, offset + length)`, which lie in one page, for writing if none of the
    /// page's lines is watched.
    #[inline(always)]
    pub fn unwatched_mut(&mut self, offset: usize, length: usize) -> Option<&mut [u8]> {
        debug_assert!(self.lent.is_none(), "a store that nobody keeps");
        if self.watched_lines.get(offset >> 12) != Some(&0) {
            return None;
        }
        self.ram.get_mut(offset..offset + length)
    }

    /// The bytes `[offset, offset + length)` for a write that is noted behind it.
    #[inline(always)]
    pub fn ram_mut(&mut self, offset: usize, length: usize) -> Option<&mut [u8]> {
        self.save_before(offset, length);
        self.ram.get_mut(offset..offset + length)
    }

    /// A writer that does not go through [`Self::unwatched_mut`] says so first.
    #[inline(always)]
    pub fn save_before(&mut self, offset: usize, length: usize) {
        if self.is_recorded {
            self.record(offset, length);
        }
    }

    #[cold]
    #[inline(never)]
    fn record(&mut self, offset: usize, length: usize) {
        self.save_before_change(offset, length);
        self.keep_store(offset, length);
    }

    /// The same of a change that no processor stores.
    pub(crate) fn save_before_change(&mut self, offset: usize, length: usize) {
        if self.undo.is_some() {
            self.save_pages(offset, length);
        }
    }

    /// After a mark was made or left, or a buffer lent or taken back.
    pub(crate) fn update_recorded(&mut self) {
        self.is_recorded = self.undo.is_some() || self.lent.is_some();
    }

    /// The lines of a page that are watched, a bit each.
    pub fn lines_of(&self, page: usize) -> u64 {
        match &self.undo {
            Some(undo) if undo.is_unsaved(page) => undo.lines_of(page),
            _ => self.watched_lines[page],
        }
    }

    /// Takes note of a write to `[offset, offset + length)`; true if a watched line was hit.
    #[inline]
    pub fn note_write(&mut self, offset: usize, length: usize) -> bool {
        let (first, last) = (offset / 64, (offset + length - 1) / 64);
        let mut hit = false;
        for line in first..=last {
            hit |= self.note_line(line);
        }
        hit
    }

    #[inline]
    fn note_line(&mut self, line: usize) -> bool {
        let page = line / 64;
        debug_assert!(self.undo.as_ref().is_none_or(|undo| !undo.is_unsaved(page)));
        if self.watched_lines[page] & (1 << (line % 64)) == 0 {
            return false;
        }
        // All blocks of the page go with its generation, so none of its lines is watched now.
        self.watched_lines[page] = 0;
        self.generations[page] = self.generations[page].saturating_add(1);
        self.watched_writes += 1;
        self.publish_stores();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ram_is_split_around_the_hole() {
        let memory = GuestMemory::new(4 << 30);
        assert_eq!(memory.offset(SystemPhysical(HOLE_START - 1)), Some(0xBFFF_FFFF));
        assert_eq!(memory.offset(SystemPhysical(HOLE_START)), None);
        assert_eq!(memory.offset(SystemPhysical(HOLE_END)), Some(0xC000_0000));
        assert_eq!(memory.offset(SystemPhysical(HOLE_END + (1 << 30))), None);
    }

    #[test]
    fn a_range_across_the_hole_is_refused() {
        let memory = GuestMemory::new(4 << 30);
        assert!(memory.slice(SystemPhysical(HOLE_START - 4), 8).is_err());
        assert!(memory.slice(SystemPhysical(u64::MAX), 8).is_err());
    }

    #[test]
    fn read_only_memory_ends_at_4_gib_and_nobody_writes_it() {
        let mut memory = GuestMemory::of(MemoryLayout::with_read_only(4 << 20, 2 << 20));
        memory.set_read_only(&vec![0x5A; 2 << 20]);
        let first = SystemPhysical(HOLE_END - (2 << 20));
        assert_eq!(memory.offset(SystemPhysical(first.0 - 1)), None);
        assert_eq!(memory.offset(first), Some(4 << 20));
        assert_eq!(memory.offset(SystemPhysical(HOLE_END - 1)), Some((6 << 20) - 1));
        assert_eq!(memory.offset(SystemPhysical(HOLE_END)), None);
        assert_eq!(memory.address(4 << 20), Some(first));
        assert_eq!(memory.writable_offset(first), None);
        assert_eq!(memory.writable_offset(SystemPhysical(0)), Some(0));
        assert!(memory.write(first, &[1]).is_err());
        memory.change_by(Author::Other, 4 << 20, 1, |bytes| bytes[0] = 1);
        assert_eq!(memory.slice(first, 1), Ok(&[0x5A][..]));
        assert!(memory.slice(SystemPhysical(HOLE_END - 4), 8).is_err());
    }

    #[test]
    fn read_only_memory_leaves_more_addresses_below_it() {
        for (size, low) in [(2 << 30, 2 << 30), (0xAFFF_F000, 0xAFFF_F000), (3 << 30, 2 << 30)] {
            let layout = MemoryLayout::with_read_only(size, 4 << 20);
            assert_eq!((layout.low, layout.ram()), (low, size), "{size:#x}");
            assert_eq!(MemoryLayout::with_read_only(size, 0), MemoryLayout::new(size));
        }
    }

    #[test]
    fn a_write_to_a_watched_line_bumps_the_generation_of_its_page() {
        let mut memory = GuestMemory::new(1 << 20);
        memory.watch(0x1040, 4);
        assert!(!memory.note_write(0x1000, 64));
        assert_eq!(memory.generations[1], 0);
        assert!(memory.note_write(0x103F, 2));
        assert_eq!(memory.generations[1], 1);
    }

    #[test]
    fn a_page_whose_generations_are_used_up_has_always_changed() {
        let mut memory = GuestMemory::new(1 << 20);
        for before in [0, 1, u32::MAX - 1, u32::MAX] {
            memory.generations[1] = before;
            memory.watch(0x1040, 4);
            let remembered = memory.generation_to_remember(1);
            assert_eq!(remembered == memory.generations[1], before < u32::MAX, "{before}");
            assert!(memory.note_write(0x1040, 1));
            assert_ne!(memory.generations[1], remembered, "{before}");
        }
    }
}

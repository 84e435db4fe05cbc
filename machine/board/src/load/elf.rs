//! ELF executables: header, program headers, loading of segments. [ELF "Program Header"]

use super::error::LoadError;
use super::loader::Loader;
use super::source::Source;
use arch::address::SystemPhysical;

pub(super) const MAGIC: &[u8] = b"\x7FELF";
pub(super) const MACHINE_386: u16 = 3;
pub(super) const MACHINE_X86_64: u16 = 62;
/// The file's words, and the code in it, have so many bits.
const CLASS_32: u8 = 1;
const CLASS_64: u8 = 2;
/// More program headers than any kernel has.
const MOST_SEGMENTS: u16 = 64;

pub(super) const LOAD: u32 = 1;
pub(super) const NOTE: u32 = 4;

pub(super) struct Elf {
    pub entry: u64,
    pub segments: Vec<Segment>,
}

/// A program header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// Where its header lies, for messages.
    pub header: u64,
    pub kind: u32,
    pub offset: u64,
    pub physical: u64,
    pub virtual_address: u64,
    pub file_size: u64,
    pub memory_size: u64,
}

/// Whether a file is of 32-bit code, as far as its first bytes say.
pub(super) fn is_32_bit(file: &[u8]) -> bool {
    file.starts_with(MAGIC) && file.get(4) == Some(&CLASS_32)
}

impl Elf {
    pub fn parse(source: Source) -> Result<Self, LoadError> {
        let magic = source.slice(0, 4, "ELF magic")?;
        if *magic != *MAGIC {
            let value = u32::from_be_bytes([magic[0], magic[1], magic[2], magic[3]]);
            return Err(source.field("ELF magic", 0, u64::from(value), "7f 45 4c 46"));
        }
        let class = source.u8(4, "ELF class")?;
        if !matches!(class, CLASS_32 | CLASS_64) {
            return Err(source.field("ELF class", 4, class.into(), "1 (32-bit) or 2 (64-bit)"));
        }
        let order = source.u8(5, "ELF byte order")?;
        if order != 1 {
            return Err(source.field("ELF byte order", 5, order.into(), "1 (little-endian)"));
        }
        let machine = source.u16(18, "ELF machine")?;
        if !matches!(machine, MACHINE_386 | MACHINE_X86_64) {
            let expected = "3 (i386) or 62 (x86-64)";
            return Err(source.field("ELF machine", 18, machine.into(), expected));
        }
        if class == CLASS_64 { Self::parse_64(source) } else { Self::parse_32(source) }
    }

    fn parse_64(source: Source) -> Result<Self, LoadError> {
        let entry = source.u64(24, "ELF entry")?;
        let table = source.u64(32, "program header offset")?;
        let segments = Self::table(source, table, 54, 56, |at| {
            Ok(Segment {
                header: at,
                kind: source.u32(at, "segment type")?,
                offset: source.u64(at + 8, "segment offset")?,
                virtual_address: source.u64(at + 16, "segment virtual address")?,
                physical: source.u64(at + 24, "segment physical address")?,
                file_size: source.u64(at + 32, "segment file size")?,
                memory_size: source.u64(at + 40, "segment memory size")?,
            })
        })?;
        Ok(Self { entry, segments })
    }

    fn parse_32(source: Source) -> Result<Self, LoadError> {
        let entry = source.u32(24, "ELF entry")?.into();
        let table = source.u32(28, "program header offset")?.into();
        let segments = Self::table(source, table, 42, 32, |at| {
            Ok(Segment {
                header: at,
                kind: source.u32(at, "segment type")?,
                offset: source.u32(at + 4, "segment offset")?.into(),
                virtual_address: source.u32(at + 8, "segment virtual address")?.into(),
                physical: source.u32(at + 12, "segment physical address")?.into(),
                file_size: source.u32(at + 16, "segment file size")?.into(),
                memory_size: source.u32(at + 20, "segment memory size")?.into(),
            })
        })?;
        Ok(Self { entry, segments })
    }

    /// Reads the table at `table`, whose entry size and count lie at `size_at` and after it.
    fn table(
        source: Source,
        table: u64,
        size_at: u64,
        smallest: u16,
        read: impl Fn(u64) -> Result<Segment, LoadError>,
    ) -> Result<Vec<Segment>, LoadError> {
        let size = source.u16(size_at, "program header size")?;
        if size < smallest {
            let expected = format!("at least {smallest:#x}");
            return Err(source.field("program header size", size_at, size.into(), &expected));
        }
        let count = source.u16(size_at + 2, "number of program headers")?;
        if count > MOST_SEGMENTS {
            let expected = format!("at most {MOST_SEGMENTS:#x}");
            let field = "number of program headers";
            return Err(source.field(field, size_at + 2, count.into(), &expected));
        }
        source.check(table, u64::from(size) * u64::from(count), "program header table")?;
        (0..count).map(|index| read(table + u64::from(size) * u64::from(index))).collect()
    }

    /// Segments to be loaded that take up memory.
    pub fn loadable(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.kind == LOAD && segment.memory_size != 0)
    }

    /// The physical address of `virtual_address`, where a loadable segment has it.
    pub fn physical_of(&self, virtual_address: u64) -> Option<u64> {
        self.loadable().find_map(|segment| {
            let distance = virtual_address.checked_sub(segment.virtual_address)?;
            (distance < segment.memory_size).then(|| segment.physical.wrapping_add(distance))
        })
    }

    /// Copies all segments to their physical addresses; the end of the highest one.
    pub fn load(&self, loader: &mut Loader, source: Source) -> Result<u64, LoadError> {
        let mut end = 0;
        for segment in self.loadable() {
            segment.load(loader, source)?;
            end = end.max(segment.physical + segment.memory_size);
        }
        if end == 0 {
            let expected = "at least one segment to load";
            return Err(source.field("number of segments to load", 0, 0, expected));
        }
        Ok(end)
    }
}

impl Segment {
    fn load(&self, loader: &mut Loader, source: Source) -> Result<(), LoadError> {
        if self.file_size > self.memory_size {
            let expected = format!("at most the segment's memory size {:#x}", self.memory_size);
            return Err(source.field("segment file size", self.header, self.file_size, &expected));
        }
        source.check(self.offset, self.file_size, "segment")?;
        let what = format!("segment at {:#x}, {:#x} bytes", self.physical, self.memory_size);
        if !loader.placement.claim(self.physical, self.memory_size) {
            let end = self.physical.saturating_add(self.memory_size);
            let ram = loader.memory.layout().low;
            let wanted = if end > ram {
                format!("RAM up to {end:#x}, the machine's ends at {ram:#x}: give it more memory")
            } else {
                "free RAM there".into()
            };
            return Err(loader.no_room(source.name, what, wanted));
        }
        loader.copy(self.physical, source, (self.offset, self.file_size), "segment")?;
        loader.zero(self.physical + self.file_size, self.memory_size - self.file_size)
    }
}

impl Loader<'_, '_> {
    /// Zeroes a range, leaving alone what is zero already: untouched RAM stays unallocated.
    pub(super) fn zero(&mut self, start: u64, size: u64) -> Result<(), LoadError> {
        const CHUNK: u64 = 4096;
        const ZERO: [u8; CHUNK as usize] = [0; CHUNK as usize];
        let mut at = start;
        while at < start + size {
            let length = CHUNK.min(start + size - at) as usize;
            let is_zero = self
                .memory
                .slice(SystemPhysical(at), length)
                .is_ok_and(|bytes| bytes == &ZERO[..length]);
            if !is_zero {
                self.write(at, &ZERO[..length])?;
            }
            at += length as u64;
        }
        Ok(())
    }
}

//! Multiboot 2. [MULTIBOOT2 "OS image format"] [MULTIBOOT2 "Boot information"]
//!
//! Command lines are the arguments alone, without the file's name, as GRUB passes them.
//!
//! Left out: framebuffers (an image that cannot do without one is refused), symbol tables, what EFI
//! systems and networks add; an image that could be moved stays where it was linked.

use super::bzimage::terminated;
use super::error::LoadError;
use super::loader::Loader;
use super::multiboot::{Addresses, LOADER_NAME, LONGEST_COMMAND_LINE, conventional_memory, elf};
use super::source::Source;
use super::state::BOOT_DATA_START;
use super::state::{BootRegisters, BootState, EntryMode, LOADER_STACK};

const HEADER_MAGIC: u32 = 0xE852_50D6;
const BOOT_MAGIC: u64 = 0x36D7_6289;
/// The header lies wholly in this much of the file, 64-bit aligned.
pub(super) const SEARCHED: usize = 32 << 10;
/// Magic, architecture, length, checksum.
const HEADER_SIZE: u64 = 16;
/// Protected mode of the i386, the only architecture that this machine has.
const ARCHITECTURE_I386: u32 = 0;

/// Tags of the header.
const END: u16 = 0;
const INFORMATION_REQUEST: u16 = 1;
const ADDRESSES: u16 = 2;
const ENTRY: u16 = 3;
const CONSOLE: u16 = 4;
const ALIGN_MODULES: u16 = 6;
/// What they ask for is of EFI systems, and this is none: boot services, two entry points.
const OF_EFI: std::ops::RangeInclusive<u16> = 7..=9;
const RELOCATABLE: u16 = 10;
/// A tag that a boot loader may leave alone.
const IS_OPTIONAL: u16 = 1;

/// Tags of the information block.
const COMMAND_LINE: u32 = 1;
const NAME: u32 = 2;
const MODULE: u32 = 3;
const MEMORY: u32 = 4;
const MEMORY_MAP: u32 = 6;
const RSDP: u32 = 15;
const GIVEN: [u32; 6] = [COMMAND_LINE, NAME, MODULE, MEMORY, MEMORY_MAP, RSDP];
/// Bytes of an RSDP of revision 2.
const RSDP_SIZE: usize = 36;

/// The file offset of a valid header: its first four words add up to zero.
pub(super) fn find_header(bytes: &[u8]) -> Option<u64> {
    let searched = &bytes[..bytes.len().min(SEARCHED)];
    (0..searched.len()).step_by(8).find_map(|at| {
        let header = searched.get(at..at + HEADER_SIZE as usize)?;
        let words = header
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        let is_one = header.starts_with(&HEADER_MAGIC.to_le_bytes());
        (is_one && words.fold(0, u32::wrapping_add) == 0).then_some(at as u64)
    })
}

/// What the header asks for.
#[derive(Default)]
struct Request {
    addresses: Option<Addresses>,
    /// File offset of the entry address, and the address.
    entry: Option<(u64, u64)>,
}

pub(super) fn load(mut loader: Loader, header: u64) -> Result<BootState, LoadError> {
    let source = loader.request.kernel;
    let architecture = source.u32(header + 4, "Multiboot 2 architecture")?;
    if architecture != ARCHITECTURE_I386 {
        let field = "Multiboot 2 architecture";
        return Err(source.field(field, header + 4, architecture.into(), "0, i386"));
    }
    let Request { addresses, entry } = Request::read(source, header)?;
    let (kind, entry, end) = match (addresses, entry) {
        (Some(addresses), Some((at, entry))) => {
            let end = addresses.load(&mut loader, header, (at, entry))?;
            ("with address tags", entry, end)
        }
        (Some(addresses), None) => {
            let expected = "followed by a tag with the entry address (3)";
            return Err(source.field("Multiboot 2 address tag", addresses.at, 2, expected));
        }
        (None, wanted) => {
            let (entry, end) = elf(&mut loader)?;
            ("ELF", wanted.map_or(entry, |(_, wanted)| wanted), end)
        }
    };
    let information = place_information(&mut loader, end)?;
    let registers = BootRegisters {
        rax: BOOT_MAGIC,
        rbx: information,
        rsp: LOADER_STACK,
        ..BootRegisters::default()
    };
    let description = format!("Multiboot 2 {kind} image, entry {entry:#x}");
    loader.boot_state(EntryMode::Protected32, entry, registers, description)
}

impl Request {
    /// Goes through the header's tags. One that must be obeyed and is not known is refused.
    fn read(source: Source, header: u64) -> Result<Self, LoadError> {
        let length = u64::from(source.u32(header + 8, "Multiboot 2 header length")?);
        source.slice(header, length, "Multiboot 2 header")?;
        let mut request = Self::default();
        let mut at = header + HEADER_SIZE;
        while at < header + length {
            let kind = source.u16(at, "Multiboot 2 tag")?;
            let is_optional = source.u16(at + 2, "Multiboot 2 tag flags")? & IS_OPTIONAL != 0;
            let size = u64::from(source.u32(at + 4, "Multiboot 2 tag size")?);
            if size < 8 {
                let expected = "at least 8";
                return Err(source.field("Multiboot 2 tag size", at + 4, size, expected));
            }
            match kind {
                END => break,
                ADDRESSES => {
                    request.addresses = Some(Addresses::read(source, at + 8)?);
                }
                ENTRY => {
                    let entry = source.u32(at + 8, "Multiboot 2 entry address")?;
                    request.entry = Some((at + 8, entry.into()));
                }
                INFORMATION_REQUEST if !is_optional => check_request(source, at, size)?,
                INFORMATION_REQUEST | CONSOLE | ALIGN_MODULES | RELOCATABLE => {}
                kind if is_optional || OF_EFI.contains(&kind) => {}
                kind => {
                    let expected = "a tag of type 0 to 4 or 6 to 10, or optional (flags bit 0)";
                    return Err(source.field("Multiboot 2 tag", at, kind.into(), expected));
                }
            }
            at = (at + size).next_multiple_of(8);
        }
        Ok(request)
    }
}

/// Refuses a request for information that there is not.
fn check_request(source: Source, tag: u64, size: u64) -> Result<(), LoadError> {
    for at in (tag + 8..tag + size).step_by(4) {
        let wanted = source.u32(at, "Multiboot 2 information request")?;
        if !GIVEN.contains(&wanted) {
            let expected = format!("one of {GIVEN:?}, or in an optional tag");
            let field = "Multiboot 2 information request";
            return Err(source.field(field, at, wanted.into(), &expected));
        }
    }
    Ok(())
}

/// The information block: its size, and tags.
struct Block(Vec<u8>);

impl Block {
    fn tag(&mut self, kind: u32, words: &[u64], rest: &[u8]) {
        let size = 8 + words.len() * 4 + rest.len();
        let head = [u64::from(kind), size as u64];
        let words = head.iter().chain(words).map(|word| *word as u32);
        self.0.extend(words.flat_map(u32::to_le_bytes));
        self.0.extend_from_slice(rest);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
    }
}

/// Places modules above the kernel, and the information block in low memory; its address.
fn place_information(loader: &mut Loader, kernel_end: u64) -> Result<u64, LoadError> {
    let request = loader.request;
    let source = request.kernel;
    let line = |file, text: &str| terminated(file, text, LONGEST_COMMAND_LINE);
    let mut block = Block(vec![0; 8]);
    block.tag(COMMAND_LINE, &[], &line(source, request.command_line)?);
    block.tag(NAME, &[], LOADER_NAME);
    for module in request.all_modules() {
        let from = kernel_end.max(1 << 20);
        let start = loader.place_file_low(module.file, from)?;
        let end = start + module.file.length();
        block.tag(MODULE, &[start, end], &line(module.file, module.command_line)?);
    }
    let (lower, upper) = conventional_memory(loader);
    block.tag(MEMORY, &[lower >> 10, upper >> 10], &[]);
    let regions = request.memory_map.iter();
    let map: Vec<u8> =
        regions.flat_map(|region| region.to_e820().into_iter().chain([0; 4])).collect();
    block.tag(MEMORY_MAP, &[24, 0], &map);
    if let Some(rsdp) = request.rsdp {
        let copy = loader.memory.slice(rsdp, RSDP_SIZE).map(<[u8]>::to_vec);
        block.tag(RSDP, &[], &copy.unwrap_or_default());
    }
    block.tag(END.into(), &[], &[]);
    let size = block.0.len() as u32;
    block.0[..4].copy_from_slice(&size.to_le_bytes());
    loader.place_low(source.name, &block.0, BOOT_DATA_START)
}

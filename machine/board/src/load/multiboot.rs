//! Multiboot 1. [MULTIBOOT "OS image format"] [MULTIBOOT "Boot information format"]
//!
//! The first word of every command line is the file's name, as GRUB's first version passes it;
//! Xen and the usual test kernels count on it.
//!
//! Left out: the video mode request (text mode is all there is), symbol tables, drive, BIOS
//! configuration, APM and VBE information.

use super::bzimage::terminated;
use super::elf::Elf;
use super::error::LoadError;
use super::loader::{Loader, Module};
use super::source::Source;
use super::state::BOOT_DATA_START;
use super::state::{BootRegisters, BootState, EntryMode, LOADER_STACK};
use crate::firmware::MemoryKind;

const HEADER_MAGIC: u32 = 0x1BAD_B002;
const BOOT_MAGIC: u64 = 0x2BAD_B002;
/// The header lies wholly in this much of the file, 32-bit aligned.
const SEARCHED: usize = 8192;

/// Header flags. Bits 15:0 must be obeyed or refused.
const ALIGN_MODULES: u32 = 1 << 0;
const MEMORY_INFORMATION: u32 = 1 << 1;
const VIDEO_MODE: u32 = 1 << 2;
const MUST_BE_KNOWN: u32 = 0xFFFF;
const HAS_ADDRESSES: u32 = 1 << 16;

/// Information flags: which fields are valid.
const INFO_MEMORY: u32 = 1 << 0;
const INFO_COMMAND_LINE: u32 = 1 << 2;
const INFO_MODULES: u32 = 1 << 3;
const INFO_MEMORY_MAP: u32 = 1 << 6;
const INFO_LOADER_NAME: u32 = 1 << 9;

const INFO_SIZE: usize = 116;
pub(super) const LOADER_NAME: &[u8] = b"Avicenna\0";
pub(super) const LONGEST_COMMAND_LINE: usize = 16 << 10;

/// The file offset of a valid header: magic, flags and checksum add up to zero.
pub(super) fn find_header(bytes: &[u8]) -> Option<u64> {
    let searched = &bytes[..bytes.len().min(SEARCHED)];
    let word = |at: usize| {
        let bytes = searched.get(at..at + 4)?;
        Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    };
    (0..searched.len()).step_by(4).map_while(|at| Some((at, word(at)?))).find_map(|(at, magic)| {
        if magic != HEADER_MAGIC {
            return None;
        }
        let sum = magic.wrapping_add(word(at + 4)?).wrapping_add(word(at + 8)?);
        (sum == 0).then_some(at as u64)
    })
}

pub(super) fn load(mut loader: Loader, header: u64) -> Result<BootState, LoadError> {
    let source = loader.request.kernel;
    let flags = source.u32(header + 4, "Multiboot flags")?;
    let unknown = flags & MUST_BE_KNOWN & !(ALIGN_MODULES | MEMORY_INFORMATION | VIDEO_MODE);
    if unknown != 0 {
        let expected = "without unknown required features in bits 15:3";
        return Err(source.field("Multiboot flags", header + 4, flags.into(), expected));
    }
    let (kind, entry, end) = if flags & HAS_ADDRESSES != 0 {
        let addresses = Addresses::read(source, header + 12)?;
        let entry = source.u32(header + 28, "Multiboot entry address")?.into();
        let end = addresses.load(&mut loader, header, (header + 28, entry))?;
        ("with address fields", entry, end)
    } else {
        let (entry, end) = elf(&mut loader)?;
        ("ELF", entry, end)
    };
    let information = place_information(&mut loader, end)?;
    let registers = BootRegisters {
        rax: BOOT_MAGIC,
        rbx: information,
        rsp: LOADER_STACK,
        ..BootRegisters::default()
    };
    let description = format!("Multiboot {kind} image, entry {entry:#x}");
    loader.boot_state(EntryMode::Protected32, entry, registers, description)
}

/// Loads an ELF image; its physical entry point and its end.
pub(super) fn elf(loader: &mut Loader) -> Result<(u64, u64), LoadError> {
    let source = loader.request.kernel;
    let elf = Elf::parse(source)?;
    let end = elf.load(loader, source)?;
    // GRUB takes the entry point for virtual where a segment says so.
    let is_physical = elf.loadable().any(|segment| {
        elf.entry.checked_sub(segment.physical).is_some_and(|at| at < segment.memory_size)
    });
    let entry = if is_physical { Some(elf.entry) } else { elf.physical_of(elf.entry) };
    let entry = entry.filter(|entry| *entry < 1 << 32).ok_or_else(|| {
        source.field("ELF entry", 24, elf.entry, "inside a loaded segment, below 4 GiB")
    })?;
    Ok((entry, end))
}

/// Where an image wants to be that says so in its header.
pub(super) struct Addresses {
    /// File offset of the first of them.
    pub(super) at: u64,
    header: u64,
    load_start: u64,
    load_end: u64,
    bss_end: u64,
}

impl Addresses {
    pub(super) fn read(source: Source, at: u64) -> Result<Self, LoadError> {
        let field = |index: u64, what| Ok(u64::from(source.u32(at + index * 4, what)?));
        Ok(Self {
            at,
            header: field(0, "Multiboot header address")?,
            load_start: field(1, "Multiboot load address")?,
            load_end: field(2, "Multiboot load end address")?,
            bss_end: field(3, "Multiboot bss end address")?,
        })
    }

    /// Loads the image whose header is at that file offset; its end. The entry's own file offset
    /// and the entry, which must be inside.
    pub(super) fn load(
        &self,
        loader: &mut Loader,
        header: u64,
        (entry_at, entry): (u64, u64),
    ) -> Result<u64, LoadError> {
        let source = loader.request.kernel;
        let load_start = self.load_start;
        let offset = self
            .header
            .checked_sub(load_start)
            .and_then(|distance| header.checked_sub(distance))
            .ok_or_else(|| {
                let expected = "at or above the load address, by at most the header's file offset";
                source.field("Multiboot header address", self.at, self.header, expected)
            })?;
        let length = match self.load_end {
            0 => source.length() - offset,
            end => end.checked_sub(load_start).ok_or_else(|| {
                let expected = "zero or above the load address";
                source.field("Multiboot load end address", self.at + 8, end, expected)
            })?,
        };
        let end = (load_start + length).max(self.bss_end);
        let what = "image named by Multiboot address fields";
        source.check(offset, length, what)?;
        if !loader.placement.claim(load_start, end - load_start) {
            let image = format!("image at {load_start:#x}, {:#x} bytes", end - load_start);
            return Err(loader.no_room(source.name, image, "free RAM there".into()));
        }
        loader.copy(load_start, source, (offset, length), what)?;
        loader.zero(load_start + length, end - load_start - length)?;
        if !(load_start..end).contains(&entry) {
            let expected = format!("inside the image, {load_start:#x} to {end:#x}");
            return Err(source.field("Multiboot entry address", entry_at, entry, &expected));
        }
        Ok(end)
    }
}

/// The information block and what it points to, built back to front around a known address.
struct Block {
    address: u64,
    bytes: Vec<u8>,
}

impl Block {
    fn put_u32(&mut self, offset: usize, value: u64) {
        self.bytes[offset..offset + 4].copy_from_slice(&(value as u32).to_le_bytes());
    }

    /// Appends bytes; their address.
    fn append(&mut self, bytes: &[u8]) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        let address = self.address + self.bytes.len() as u64;
        self.bytes.extend_from_slice(bytes);
        address
    }
}

/// Places modules above the kernel and the information block in low memory; its address.
fn place_information(loader: &mut Loader, kernel_end: u64) -> Result<u64, LoadError> {
    let request = loader.request;
    let source = request.kernel;
    let modules = request.all_modules();
    let line = command_line(source, request.command_line)?;
    let lines: Vec<_> = modules.iter().map(module_line).collect::<Result<Vec<_>, LoadError>>()?;
    let strings: usize = lines.iter().map(|line| line.len() + 4).sum::<usize>() + line.len() + 4;
    let size = INFO_SIZE + LOADER_NAME.len() + strings + modules.len() * 16;
    let size = (size + 16 + request.memory_map.len() * 24) as u64;
    let address = loader.reserve_low(source.name, size, BOOT_DATA_START)?;
    let mut block = Block { address, bytes: vec![0; INFO_SIZE] };

    let mut list = Vec::new();
    for (module, line) in modules.iter().zip(&lines) {
        let from = kernel_end.max(1 << 20);
        let start = loader.place_file_low(module.file, from)?;
        let end = start + module.file.length();
        let line = block.append(line);
        list.extend([start, end, line, 0].into_iter().flat_map(|word| (word as u32).to_le_bytes()));
    }
    let list = block.append(&list);
    let line = block.append(&line);
    let name = block.append(LOADER_NAME);
    let map: Vec<u8> = request
        .memory_map
        .iter()
        .flat_map(|region| 20u32.to_le_bytes().into_iter().chain(region.to_e820()))
        .collect();
    let map_at = block.append(&map);

    let (lower, upper) = conventional_memory(loader);
    let flags = INFO_MEMORY
        | INFO_COMMAND_LINE
        | if modules.is_empty() { 0 } else { INFO_MODULES }
        | INFO_MEMORY_MAP
        | INFO_LOADER_NAME;
    let fields = [
        (0, u64::from(flags)),
        (4, lower >> 10),
        (8, upper >> 10),
        (16, line),
        (20, modules.len() as u64),
        (24, list),
        (44, map.len() as u64),
        (48, map_at),
        (64, name),
    ];
    for (offset, value) in fields {
        block.put_u32(offset, value);
    }
    loader.write(address, &block.bytes)?;
    Ok(address)
}

/// Bytes of usable RAM from 0 on, and from 1 MiB on up to the first hole.
pub(super) fn conventional_memory(loader: &Loader) -> (u64, u64) {
    let extent = |start: u64| {
        let region = loader.request.memory_map.iter().find(|region| {
            region.kind == MemoryKind::Usable
                && region.start <= start
                && start < region.start + region.length
        });
        region.map_or(0, |region| region.start + region.length - start)
    };
    (extent(0), extent(1 << 20))
}

fn module_line(module: &Module) -> Result<Vec<u8>, LoadError> {
    command_line(module.file, module.command_line)
}

/// The file's name, a space, and its arguments, with a NUL.
fn command_line(file: Source, arguments: &str) -> Result<Vec<u8>, LoadError> {
    let line = if arguments.is_empty() {
        file.name.to_owned()
    } else {
        format!("{} {arguments}", file.name)
    };
    terminated(file, &line, LONGEST_COMMAND_LINE)
}

//! ELF kernels with a PVH entry point. [PVH "Physical 32-bit entry point"]

use super::bzimage::terminated;
use super::elf::{Elf, NOTE, Segment};
use super::error::LoadError;
use super::loader::Loader;
use super::source::Source;
use super::state::BOOT_DATA_START;
use super::state::{BootRegisters, BootState, EntryMode};

/// The note that holds the entry point: owner "Xen", this type.
const OWNER: &[u8] = b"Xen\0";
const PHYS32_ENTRY: u32 = 18;
/// More notes than any kernel has.
const MOST_NOTES: usize = 256;

const START_MAGIC: u32 = 0x336E_C578;
const START_VERSION: u32 = 1;
const LONGEST_COMMAND_LINE: usize = 16 << 10;

/// The entry point in the notes of an ELF file, if there is one.
pub(super) fn entry(source: Source, elf: &Elf) -> Result<Option<u64>, LoadError> {
    for segment in elf.segments.iter().filter(|segment| segment.kind == NOTE) {
        if let Some(entry) = entry_in(source, segment)? {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

fn entry_in(source: Source, segment: &Segment) -> Result<Option<u64>, LoadError> {
    source.check(segment.offset, segment.file_size, "note segment")?;
    let end = segment.offset + segment.file_size;
    let mut at = segment.offset;
    for _ in 0..MOST_NOTES {
        if at + 12 > end {
            break;
        }
        let name_size = u64::from(source.u32(at, "note name size")?);
        let size = u64::from(source.u32(at + 4, "note size")?);
        let kind = source.u32(at + 8, "note type")?;
        source.check(at + 12, name_size, "note name")?;
        let is_owner = name_size == OWNER.len() as u64
            && *source.slice(at + 12, name_size, "note name")? == *OWNER;
        let value_at = at + 12 + name_size.next_multiple_of(4);
        if is_owner && kind == PHYS32_ENTRY {
            return match size {
                4 => Ok(Some(source.u32(value_at, "PVH entry point")?.into())),
                8 => Ok(Some(source.u64(value_at, "PVH entry point")?)),
                size => Err(source.field("size of the PVH note", at + 4, size, "4 or 8")),
            };
        }
        at = value_at + size.next_multiple_of(4);
    }
    Ok(None)
}

pub(super) fn load(mut loader: Loader) -> Result<BootState, LoadError> {
    let source = loader.request.kernel;
    let elf = Elf::parse(source)?;
    let entry = entry(source, &elf)?.unwrap_or(elf.entry);
    elf.load(&mut loader, source)?;
    let inside = elf.loadable().any(|segment| {
        entry.checked_sub(segment.physical).is_some_and(|at| at < segment.memory_size)
    });
    if !inside || entry >= 1 << 32 {
        let expected = "inside a loaded segment, below 4 GiB";
        return Err(source.field("PVH entry point", 0, entry, expected));
    }
    let start_info = place_start_info(&mut loader)?;
    let registers = BootRegisters { rbx: start_info, ..BootRegisters::default() };
    let description = format!("ELF image with PVH entry {entry:#x}");
    loader.boot_state(EntryMode::Protected32, entry, registers, description)
}

/// Places `hvm_start_info`, its tables and the modules; its address.
fn place_start_info(loader: &mut Loader) -> Result<u64, LoadError> {
    let request = loader.request;
    let name = request.kernel.name;
    let line = terminated(request.kernel, request.command_line, LONGEST_COMMAND_LINE)?;
    let line = loader.place_low(name, &line, BOOT_DATA_START)?;
    let modules = request.all_modules();
    let mut list = Vec::new();
    for module in &modules {
        let start = loader.place_high(module.file, 1 << 20..bus::HOLE_START)?;
        let line = terminated(module.file, module.command_line, LONGEST_COMMAND_LINE)?;
        let line = loader.place_low(module.file.name, &line, BOOT_DATA_START)?;
        let entry = [start, module.file.length(), line, 0];
        list.extend(entry.into_iter().flat_map(u64::to_le_bytes));
    }
    let list = loader.place_low(name, &list, BOOT_DATA_START)?;
    let mut map = Vec::new();
    for region in request.memory_map {
        map.extend(region.to_e820());
        map.extend(0u32.to_le_bytes());
    }
    let map = loader.place_low(name, &map, BOOT_DATA_START)?;

    let mut info = Vec::new();
    let words = [START_MAGIC, START_VERSION, 0, modules.len() as u32];
    info.extend(words.into_iter().flat_map(u32::to_le_bytes));
    let list = if modules.is_empty() { 0 } else { list };
    let rsdp = request.rsdp.map_or(0, |rsdp| rsdp.0);
    info.extend([list, line, rsdp, map].into_iter().flat_map(u64::to_le_bytes));
    info.extend([request.memory_map.len() as u32, 0].into_iter().flat_map(u32::to_le_bytes));
    loader.place_low(name, &info, BOOT_DATA_START)
}

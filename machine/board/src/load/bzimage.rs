//! Linux bzImages. [LINUX-BOOT "64-bit Boot Protocol"] [LINUX-BOOT "32-bit Boot Protocol"]
//!
//! The compressed kernel inside the image is unpacked here and entered at its own first
//! instruction, at the address it was linked for: unpacking on the emulated processor takes four
//! fifths of a boot. Where its compression is not known here, the image's own unpacker is entered,
//! as it is where a 64-bit kernel does not say that it can be entered in 64-bit mode.
//!
//! Left out: address-space randomization of the kernel, which is the unpacker's work; EFI handover.

use super::elf::{Elf, is_32_bit};
use super::error::LoadError;
use super::loader::Loader;
use super::source::Source;
use super::state::{BootRegisters, BootState, EntryMode};
use super::unpack::{self, LARGEST_KERNEL};
use crate::firmware::MemoryRegion;

/// Offsets in the file and, the same, in `boot_params`. [LINUX-BOOT "The Real-Mode Kernel Header"]
mod offset {
    pub const ACPI_RSDP: usize = 0x070;
    pub const E820_ENTRIES: usize = 0x1E8;
    pub const SETUP_SECTORS: u64 = 0x1F1;
    pub const HEADER_END: u64 = 0x201;
    pub const VERSION: u64 = 0x206;
    pub const LOADER_TYPE: usize = 0x210;
    pub const LOAD_FLAGS: usize = 0x211;
    pub const RAMDISK_IMAGE: usize = 0x218;
    pub const RAMDISK_SIZE: usize = 0x21C;
    pub const COMMAND_LINE: usize = 0x228;
    pub const INITRD_MAX: u64 = 0x22C;
    pub const KERNEL_ALIGNMENT: u64 = 0x230;
    pub const IS_RELOCATABLE: u64 = 0x234;
    pub const EXTENDED_FLAGS: u64 = 0x236;
    pub const COMMAND_LINE_SIZE: u64 = 0x238;
    pub const PAYLOAD_OFFSET: u64 = 0x248;
    pub const PAYLOAD_LENGTH: u64 = 0x24C;
    pub const SETUP_DATA: usize = 0x250;
    pub const PREFERRED_ADDRESS: u64 = 0x258;
    pub const INITIAL_SIZE: u64 = 0x260;
    pub const E820_TABLE: usize = 0x2D0;
}

/// `boot_params` is one page; the setup header in it ends here at the latest.
const BOOT_PARAMETERS_SIZE: usize = 4096;
const LARGEST_HEADER_END: u64 = 0x290;
const MOST_E820_ENTRIES: usize = 128;
const OLDEST_VERSION: u16 = 0x20A;

/// Bits of the load flags and of the extended flags.
const IS_LOADED_HIGH: u8 = 1 << 0;
const HAS_RANDOM_ADDRESS: u8 = 1 << 1;
const CAN_USE_HEAP: u8 = 1 << 7;
const HAS_64_BIT_ENTRY: u16 = 1 << 0;
const UNDEFINED_LOADER: u8 = 0xFF;

/// The image's 64-bit entry point, behind its 32-bit one.
const ENTRY_64: u64 = 0x200;

/// The setup header's fields that a loader needs.
struct Setup {
    version: u16,
    /// Where the protected-mode part lies in the file.
    code_offset: u64,
    header_end: u64,
    initrd_max: u64,
    alignment: u64,
    is_relocatable: bool,
    has_64_bit_entry: bool,
    command_line_size: usize,
    payload_offset: u64,
    payload_length: u64,
    preferred_address: u64,
    initial_size: u64,
}

pub(super) fn load(mut loader: Loader) -> Result<BootState, LoadError> {
    let source = loader.request.kernel;
    let setup = Setup::parse(source)?;
    if let Some(module) = loader.request.modules.first() {
        let module = module.file.name.into();
        return Err(LoadError::ModulesForLinux { file: source.name.into(), module });
    }
    let (mode, entry, how) = match unpacked(source, &setup)? {
        Some((format, kernel)) => {
            let entry = load_unpacked(&mut loader, &setup, &kernel)?;
            let (mode, kind) = match setup.has_64_bit_entry {
                true => (EntryMode::Long64, ""),
                false => (EntryMode::Protected32, "32-bit, "),
            };
            (mode, entry, format!("{kind}{format} payload unpacked by the loader"))
        }
        None => load_packed(&mut loader, &setup)?,
    };
    let parameters = boot_parameters(&mut loader, &setup)?;
    let description = format!(
        "Linux bzImage, boot protocol {}.{:02}, {how}, entry {entry:#x}",
        setup.version >> 8,
        setup.version & 0xFF
    );
    let registers = BootRegisters { rsi: parameters, ..Default::default() };
    loader.boot_state(mode, entry, registers, description)
}

impl Setup {
    fn parse(source: Source) -> Result<Self, LoadError> {
        let version = source.u16(offset::VERSION, "boot protocol version")?;
        if version < OLDEST_VERSION {
            let expected = "20ah (Linux 2.6.31) or newer";
            return Err(source.field(
                "boot protocol version",
                offset::VERSION,
                version.into(),
                expected,
            ));
        }
        let load_flags = source.u8(offset::LOAD_FLAGS as u64, "load flags")?;
        if load_flags & IS_LOADED_HIGH == 0 {
            let at = offset::LOAD_FLAGS as u64;
            return Err(source.field(
                "load flags",
                at,
                load_flags.into(),
                "with bit 0 (bzImage) set",
            ));
        }
        let sectors = match source.u8(offset::SETUP_SECTORS, "setup sectors")? {
            0 => 4,
            sectors => u64::from(sectors),
        };
        let header_end = u64::from(source.u8(offset::HEADER_END, "setup header length")?) + 0x202;
        if !(0x268..=LARGEST_HEADER_END).contains(&header_end) {
            let expected = "66h to 8eh";
            let value = header_end - 0x202;
            return Err(source.field("setup header length", offset::HEADER_END, value, expected));
        }
        let alignment = u64::from(source.u32(offset::KERNEL_ALIGNMENT, "kernel alignment")?);
        if !alignment.is_power_of_two() || alignment < 4096 {
            let expected = "a power of two of at least 1000h";
            return Err(source.field(
                "kernel alignment",
                offset::KERNEL_ALIGNMENT,
                alignment,
                expected,
            ));
        }
        let extended = source.u16(offset::EXTENDED_FLAGS, "extended load flags")?;
        Ok(Self {
            version,
            code_offset: (sectors + 1) * 512,
            header_end,
            initrd_max: source.u32(offset::INITRD_MAX, "highest initrd address")?.into(),
            alignment,
            is_relocatable: source.u8(offset::IS_RELOCATABLE, "relocatable flag")? != 0,
            has_64_bit_entry: version >= 0x20C && extended & HAS_64_BIT_ENTRY != 0,
            command_line_size: source.u32(offset::COMMAND_LINE_SIZE, "command line size")? as usize,
            payload_offset: source.u32(offset::PAYLOAD_OFFSET, "payload offset")?.into(),
            payload_length: source.u32(offset::PAYLOAD_LENGTH, "payload length")?.into(),
            preferred_address: source.u64(offset::PREFERRED_ADDRESS, "preferred address")?,
            initial_size: source.u32(offset::INITIAL_SIZE, "initial size")?.into(),
        })
    }
}

/// The kernel inside the image and its compression, where that is known and the kernel can be
/// entered as its image: one without a 64-bit entry has to be a 32-bit one.
fn unpacked(source: Source, setup: &Setup) -> Result<Option<(&'static str, Vec<u8>)>, LoadError> {
    if setup.payload_length == 0 {
        return Ok(None);
    }
    let offset = setup.code_offset + setup.payload_offset;
    let data = source.slice(offset, setup.payload_length, "compressed kernel")?;
    let Some(format) = unpack::format(&data) else { return Ok(None) };
    let kernel = unpack::unpack(source, offset, &data, LARGEST_KERNEL)?;
    let can_be_entered = |kernel: &Vec<u8>| setup.has_64_bit_entry || is_32_bit(kernel);
    Ok(kernel.filter(can_be_entered).map(|kernel| (format, kernel)))
}

/// Loads the unpacked ELF kernel where it was linked to run; its entry point.
fn load_unpacked(loader: &mut Loader, setup: &Setup, kernel: &[u8]) -> Result<u64, LoadError> {
    let name = format!("{}, unpacked", loader.request.kernel.name);
    let source = Source::of(&name, kernel);
    let elf = Elf::parse(source)?;
    let end = elf.load(loader, source)?;
    // Until it has read the memory map the kernel may use `initial_size` bytes.
    let used_end = setup.preferred_address.saturating_add(setup.initial_size);
    if used_end > end {
        loader.placement.claim(end, used_end - end);
    }
    Ok(elf.entry)
}

/// Loads the image's protected-mode part, which unpacks itself.
fn load_packed(loader: &mut Loader, setup: &Setup) -> Result<(EntryMode, u64, String), LoadError> {
    let source = loader.request.kernel;
    let length = source.length().saturating_sub(setup.code_offset).max(1);
    let code = "protected-mode kernel";
    source.check(setup.code_offset, length, code)?;
    let size = setup.initial_size.max(length);
    let what = format!("{size:#x} bytes of kernel at {:#x}", setup.preferred_address);
    let start = if loader.placement.claim(setup.preferred_address, size) {
        setup.preferred_address
    } else if setup.is_relocatable {
        loader
            .placement
            .lowest(size, setup.alignment, 1 << 20..1 << 32)
            .ok_or_else(|| loader.no_room(source.name, what, "free RAM above 1 MiB".into()))?
    } else {
        return Err(loader.no_room(source.name, what, "free RAM there".into()));
    };
    loader.copy(start, source, (setup.code_offset, length), code)?;
    Ok(if setup.has_64_bit_entry {
        (EntryMode::Long64, start + ENTRY_64, "unpacks itself".into())
    } else {
        (EntryMode::Protected32, start, "32-bit, unpacks itself".into())
    })
}

/// Builds `boot_params`, places it, the command line and the initial RAM disk; its address.
fn boot_parameters(loader: &mut Loader, setup: &Setup) -> Result<u64, LoadError> {
    let request = loader.request;
    let source = request.kernel;
    let mut page = vec![0u8; BOOT_PARAMETERS_SIZE];
    let header = source.slice(
        offset::SETUP_SECTORS,
        setup.header_end - offset::SETUP_SECTORS,
        "setup header",
    )?;
    let start = offset::SETUP_SECTORS as usize;
    page[start..start + header.len()].copy_from_slice(&header);
    page[offset::LOADER_TYPE] = UNDEFINED_LOADER;
    page[offset::LOAD_FLAGS] &= !(HAS_RANDOM_ADDRESS | CAN_USE_HEAP);
    put(&mut page, offset::SETUP_DATA, &0u64.to_le_bytes());
    if let Some(rsdp) = request.rsdp {
        put(&mut page, offset::ACPI_RSDP, &rsdp.0.to_le_bytes());
    }
    put_memory_map(&mut page, request.memory_map);

    let command_line = terminated(source, request.command_line, setup.command_line_size)?;
    let at = loader.place_low(source.name, &command_line, super::state::BOOT_DATA_START)?;
    put(&mut page, offset::COMMAND_LINE, &(at as u32).to_le_bytes());
    if let Some(initrd) = request.initrd {
        let end = (setup.initrd_max + 1).min(bus::HOLE_START);
        let at = loader.place_high(initrd, 1 << 20..end)?;
        put(&mut page, offset::RAMDISK_IMAGE, &(at as u32).to_le_bytes());
        put(&mut page, offset::RAMDISK_SIZE, &(initrd.length() as u32).to_le_bytes());
    }
    loader.place_low(source.name, &page, super::state::BOOT_DATA_START)
}

fn put(page: &mut [u8], offset: usize, bytes: &[u8]) {
    page[offset..offset + bytes.len()].copy_from_slice(bytes);
}

/// The E820 table: start, length and type, 20 bytes each.
fn put_memory_map(page: &mut [u8], map: &[MemoryRegion]) {
    let map = &map[..map.len().min(MOST_E820_ENTRIES)];
    page[offset::E820_ENTRIES] = map.len() as u8;
    for (index, region) in map.iter().enumerate() {
        put(page, offset::E820_TABLE + index * 20, &region.to_e820());
    }
}

/// The command line with its NUL, refused where the kernel would cut it short.
pub(super) fn terminated(
    source: Source,
    command_line: &str,
    limit: usize,
) -> Result<Vec<u8>, LoadError> {
    let length = command_line.len();
    if length > limit {
        return Err(LoadError::CommandLineTooLong { file: source.name.into(), length, limit });
    }
    if let Some(offset) = command_line.bytes().position(|byte| byte == 0) {
        return Err(LoadError::CommandLineNul { file: source.name.into(), offset });
    }
    Ok(command_line.bytes().chain([0]).collect())
}

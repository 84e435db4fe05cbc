//! Firmware: what a PC's BIOS leaves in memory for a kernel. [ACPI "ACPI Software Programming
//! Model"] [SMBIOS "Structure Table Entry Point"]
//!
//! Tables are derived from the topology and the board's map, so they cannot disagree with the
//! devices. There is no firmware code to call: no BIOS interrupts (every vector returns at once),
//! no EFI services, no system management mode; unless a BIOS image that others wrote is started
//! in its place, or UEFI firmware, which are then told of the same tables.

mod acpi;
mod bios_area;
mod dmar;
mod dsdt;
mod ivrs;
mod memory_map;
mod options;
mod performance;
mod rom;
mod smbios;
mod table;
mod table_loader;
#[cfg(test)]
mod tests;
mod uefi;

pub use memory_map::{MemoryKind, MemoryRegion};
pub use options::FirmwareOptions;
pub use rom::{File, NotFirmware};
pub use uefi::{Told, Uefi, tell};

use acpi::Home;
use arch::address::SystemPhysical;
use bus::GuestMemory;

/// What a boot loader is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firmware {
    /// Sorted, without overlaps. [ACPI "System Address Map Interfaces"]
    pub memory_map: Vec<MemoryRegion>,
    /// The ACPI root pointer, which kernels may search for instead.
    pub rsdp: SystemPhysical,
}

/// The table that announces an IOMMU.
pub fn remapping_table(part: &iommu::Part) -> Vec<u8> {
    match part {
        iommu::Part::AmdVi(model) => ivrs::ivrs(model),
        iommu::Part::VtD(_) => dmar::dmar(),
    }
}

/// RAM that cannot hold the firmware's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{ram:#x} bytes of RAM, a machine with these processors needs at least {needed:#x}")]
pub struct TooLittleMemory {
    /// Bytes below 4 GiB.
    pub ram: u64,
    /// Bytes that low memory and the tables take.
    pub needed: u64,
}

/// Puts a BIOS image where a PC has it and the ACPI tables at the end of low RAM, and answers the
/// files by which the image finds these and RAM.
pub fn install_image(
    memory: &mut GuestMemory,
    options: &FirmwareOptions,
    image: &[u8],
) -> Result<Vec<File>, NotFirmware> {
    rom::check(image)?;
    let layout = memory.layout();
    let tables = acpi::build(options, layout, Home::LowRam);
    let needed = memory_map::HIGH_MEMORY + rom::WORKING_SPACE + tables.bytes.len() as u64;
    let too_little = TooLittleMemory { ram: layout.low, needed };
    if layout.low < needed {
        return Err(too_little.into());
    }
    memory
        .write(SystemPhysical(memory_map::HIGH_MEMORY - image.len() as u64), image)
        .and_then(|()| memory.write(SystemPhysical(tables.base), &tables.bytes))
        .map_err(|_| too_little)?;
    let map = memory_map::build(layout, tables.base, tables.nonvolatile);
    Ok(rom::files(&map, tables.rsdp))
}

/// Writes all tables into memory and answers what a boot loader must know.
pub fn install(
    memory: &mut GuestMemory,
    options: &FirmwareOptions,
) -> Result<Firmware, TooLittleMemory> {
    let layout = memory.layout();
    let image = acpi::build(options, layout, Home::LowRam);
    let needed = memory_map::HIGH_MEMORY + image.bytes.len() as u64;
    let too_little = TooLittleMemory { ram: layout.low, needed };
    if layout.low < needed {
        return Err(too_little);
    }
    bios_area::install(memory)
        .and_then(|()| smbios::install(memory, options.topology))
        .and_then(|()| memory.write(SystemPhysical(image.base), &image.bytes))
        .and_then(|()| memory.write(SystemPhysical(bios_area::RSDP), &image.rsdp))
        .map_err(|_| too_little)?;
    Ok(Firmware {
        memory_map: memory_map::build(layout, image.base, image.nonvolatile),
        rsdp: SystemPhysical(bios_area::RSDP),
    })
}

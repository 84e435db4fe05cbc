//! A BIOS that others wrote: what an image has to be, and the files of the firmware configuration
//! device by which it learns of RAM and of the ACPI tables. [FWCFG "QEMU Firmware Configuration
//! (fw_cfg) Device"]
//!
//! SeaBIOS is what is meant. Of its files these are left out: `bootorder`, so that it tries disks
//! in the order of their places, and SMBIOS structures, of which it makes its own.
//!
//! DEVIATION(SDM3 "First Instruction Executed"): the first instruction of a BIOS is fetched from
//! FFFF0h, where the image's end lies in RAM, and not below 4 GiB, where there is no memory then.

use super::TooLittleMemory;
use super::memory_map::{MemoryKind, MemoryRegion};
use super::table_loader::{self, ROOT_POINTER, Zone};
use device::map;

/// What an image and its work need above 1 MiB.
pub(super) const WORKING_SPACE: u64 = 8 << 20;
/// The image ends at 1 MiB, and video memory begins 256 KiB + 128 KiB below.
const LARGEST: usize = 256 << 10;
const SMALLEST: usize = 64 << 10;
/// Where an image's first instruction lies, from its end.
const RESET_VECTOR: usize = 16;
/// A far jump, with which every PC's BIOS begins.
const JMP_FAR: u8 = 0xEA;

/// A file of the firmware configuration device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// As the image asks for it.
    pub name: &'static str,
    /// All of it.
    pub content: Vec<u8>,
}

/// What cannot be started in the place of firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFirmware {
    /// Its size is none of a PC's BIOS.
    #[error(
        "{size} bytes; a BIOS image has 64 to 256 KiB in whole pages, such as SeaBIOS' \
         bios-256k.bin, and a UEFI image begins with a firmware volume, such as OVMF.fd"
    )]
    Size {
        /// In bytes.
        size: usize,
    },
    /// Its last bytes are not a reset vector.
    #[error("{found:#04x} at its reset vector, 16 bytes before its end, must be a far jump (0xea)")]
    ResetVector {
        /// The first byte.
        found: u8,
    },
    /// More than the addresses for it, or no whole pages.
    #[error(
        "{size:#x} bytes of code and variables, must be whole pages and at most {most:#x} bytes"
    )]
    Flash {
        /// In bytes.
        size: usize,
        /// The limit.
        most: usize,
    },
    /// Not what firmware keeps its variables in.
    #[error("no variables of UEFI firmware: it does not begin with their volume's header")]
    Variables,
    /// What was given beside an image that keeps none.
    #[error("a BIOS image has no use for variables of UEFI firmware")]
    NoUse,
    /// RAM in which it cannot begin to work.
    #[error("{ram:#x} bytes of RAM, UEFI firmware needs at least {needed:#x}")]
    Ram {
        /// In bytes.
        ram: u64,
        /// In bytes.
        needed: u64,
    },
    /// RAM that cannot hold it and the tables.
    #[error(transparent)]
    Memory(#[from] TooLittleMemory),
}

/// Whether an image can be a PC's BIOS.
pub(super) fn check(image: &[u8]) -> Result<(), NotFirmware> {
    let size = image.len();
    if !(SMALLEST..=LARGEST).contains(&size) || !size.is_multiple_of(4096) {
        return Err(NotFirmware::Size { size });
    }
    match image[size - RESET_VECTOR] {
        JMP_FAR => Ok(()),
        found => Err(NotFirmware::ResetVector { found }),
    }
}

/// The files for an image: RAM, the root pointer and what to do with it, where to write text.
pub(super) fn files(map: &[MemoryRegion], rsdp: Vec<u8>) -> Vec<File> {
    let file = |name, content| File { name, content };
    vec![
        file("etc/e820", address_map(map)),
        file(ROOT_POINTER, rsdp),
        // The tables that the root pointer names lie in RAM already.
        file("etc/table-loader", table_loader::allocate(ROOT_POINTER, 16, Zone::BiosSegment)),
        file("etc/sercon-port", u64::from(map::SERIAL[0]).to_le_bytes().to_vec()),
        file("etc/show-boot-menu", 0u64.to_le_bytes().to_vec()),
    ]
}

/// RAM and what is reserved; an image knows no other kinds, and keeps off what it is not told of.
fn address_map(map: &[MemoryRegion]) -> Vec<u8> {
    let lies_in_ram = |region: &&MemoryRegion| {
        region.start < map::PCI_MEMORY_START.0 || region.start >= bus::HOLE_END
    };
    let is_high = |region: &&MemoryRegion| region.start >= super::memory_map::HIGH_MEMORY;
    let mut entries = vec![MemoryRegion { start: 0, length: 0xA_0000, kind: MemoryKind::Usable }];
    entries.extend(map.iter().filter(lies_in_ram).filter(is_high).map(|region| {
        let kind = match region.kind {
            MemoryKind::Usable => MemoryKind::Usable,
            _ => MemoryKind::Reserved,
        };
        MemoryRegion { kind, ..*region }
    }));
    entries.into_iter().flat_map(MemoryRegion::to_e820).collect()
}

//! The system address map. [ACPI "System Address Map Interfaces"]

use bus::MemoryLayout;
use device::map;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Where conventional memory ends and the extended BIOS data area begins.
pub(super) const EBDA: u64 = 0x9_FC00;
const VIDEO: u64 = 0xA_0000;
/// The tables that are found by searching lie from here to 1 MiB.
const BIOS: u64 = 0xE_0000;
pub(super) const HIGH_MEMORY: u64 = 0x10_0000;
/// I/O APICs, HPET, local APICs and interrupt messages.
const INTERRUPT_WINDOW: Range<u64> = 0xFEC0_0000..0xFEF0_0000;

/// What a range of addresses is for; the values are those of the E820 interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u32)]
pub enum MemoryKind {
    /// RAM for the kernel.
    Usable = 1,
    /// Nothing to be used: firmware or devices are there.
    Reserved = 2,
    /// Tables that a kernel may discard after reading.
    AcpiReclaimable = 3,
    /// Firmware state that must survive sleep.
    AcpiNonVolatile = 4,
}

/// A range of addresses with one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRegion {
    /// The first address.
    pub start: u64,
    /// In bytes.
    pub length: u64,
    /// What may be done with it.
    pub kind: MemoryKind,
}

impl MemoryRegion {
    /// The E820 entry: start, length, type.
    pub fn to_e820(self) -> [u8; 20] {
        let mut entry = [0; 20];
        entry[0..8].copy_from_slice(&self.start.to_le_bytes());
        entry[8..16].copy_from_slice(&self.length.to_le_bytes());
        entry[16..20].copy_from_slice(&(self.kind as u32).to_le_bytes());
        entry
    }
}

/// The map of RAM with ACPI tables from `tables` up to the end of low RAM, the last `nonvolatile`
/// bytes of it not reclaimable.
pub(super) fn build(layout: MemoryLayout, tables: u64, nonvolatile: u64) -> Vec<MemoryRegion> {
    use MemoryKind::{AcpiNonVolatile, AcpiReclaimable, Reserved, Usable};
    let ranges = [
        (0..EBDA, Usable),
        (EBDA..VIDEO, Reserved),
        (BIOS..HIGH_MEMORY, Reserved),
        (HIGH_MEMORY..tables, Usable),
        (tables..layout.low - nonvolatile, AcpiReclaimable),
        (layout.low - nonvolatile..layout.low, AcpiNonVolatile),
        (map::ECAM.0..map::ECAM_END.0, Reserved),
        (INTERRUPT_WINDOW, Reserved),
        (bus::HOLE_END..bus::HOLE_END + layout.high, Usable),
    ];
    let ranges = ranges.into_iter().filter(|(range, _)| !range.is_empty());
    ranges
        .map(|(range, kind)| MemoryRegion {
            start: range.start,
            length: range.end - range.start,
            kind,
        })
        .collect()
}

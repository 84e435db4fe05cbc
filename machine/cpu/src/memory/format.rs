//! The formats of the processor's page tables. [APM2 "Page Translation and Protection"]

use arch::cpuid::Feature;
use arch::paging::entry;
use bus::walk::Format;

use crate::Cpu;
use arch::control::{Cr4, Efer};

/// Rights of an entry, as the walk combines them.
pub(crate) mod right {
    pub const WRITE: u64 = 1 << 0;
    pub const USER: u64 = 1 << 1;
    pub const EXECUTE: u64 = 1 << 2;
}

/// Entries of eight bytes: long mode, PAE below its root, nested paging.
pub(crate) struct Wide {
    /// Bits that are reserved at every level.
    pub reserved: u64,
    /// Bits that are reserved in the root of four levels.
    pub reserved_in_root: u64,
    /// Pages of 1 GiB exist.
    pub has_huge: bool,
    /// Bit 63 forbids execution.
    pub no_execute: bool,
}

impl Wide {
    /// That of the processor's present mode, which must be PAE or long mode.
    pub fn of(cpu: &Cpu) -> Self {
        let is_long = cpu.control.is_long_mode();
        let no_execute = cpu.control.efer().contains(Efer::NO_EXECUTE);
        let legacy_high = if is_long { 0 } else { 0x7FF0_0000_0000_0000 };
        Self {
            reserved: beyond(cpu) | forbidden_no_execute(no_execute) | legacy_high,
            reserved_in_root: if cpu.model.differences().reserves_global_in_root {
                entry::LARGE | entry::GLOBAL
            } else {
                entry::LARGE
            },
            has_huge: is_long && cpu.model.has(Feature::Pdpe1gb),
            no_execute,
        }
    }
}

/// Address bits beyond the physical ones.
pub(crate) fn beyond(cpu: &Cpu) -> u64 {
    entry::ADDRESS & !((1 << cpu.model.physical_bits()) - 1)
}

/// Bit 63 is reserved where it does not forbid execution.
pub(crate) fn forbidden_no_execute(no_execute: bool) -> u64 {
    if no_execute { 0 } else { entry::NO_EXECUTE }
}

impl Format for Wide {
    const ENTRY_BYTES: u64 = 8;
    const INDEX_BITS: u32 = 9;

    fn accessed(&self) -> u64 {
        entry::ACCESSED
    }

    #[inline(always)]
    fn is_present(&self, raw: u64) -> bool {
        raw & entry::PRESENT != 0
    }

    #[inline(always)]
    fn is_large(&self, raw: u64, level: u32) -> bool {
        raw & entry::LARGE != 0 && (level == 2 || level == 3 && self.has_huge)
    }

    #[inline(always)]
    fn is_malformed(&self, raw: u64, level: u32, is_leaf: bool) -> bool {
        let by_level = match (level, is_leaf) {
            (4, _) => self.reserved_in_root,
            (3, true) => 0x3FFF_E000,
            (3, false) => entry::LARGE,
            (2, true) => 0x1F_E000,
            _ => 0,
        };
        raw & (self.reserved | by_level) != 0
    }

    #[inline(always)]
    fn rights(&self, raw: u64) -> u64 {
        let executes = raw & entry::NO_EXECUTE == 0 || !self.no_execute;
        flat_rights(raw) | if executes { right::EXECUTE } else { 0 }
    }

    #[inline(always)]
    fn table(&self, raw: u64) -> u64 {
        raw & entry::ADDRESS
    }
}

/// Entries of four bytes: two levels.
pub(crate) struct Legacy {
    /// CR4.PSE
    pub has_large: bool,
}

impl Legacy {
    /// Where tables and pages of 4 KiB lie.
    pub const FRAME: u64 = 0xFFFF_F000;

    pub fn of(cpu: &Cpu) -> Self {
        Self { has_large: cpu.control.cr4().contains(Cr4::PSE) }
    }
}

impl Format for Legacy {
    const ENTRY_BYTES: u64 = 4;
    const INDEX_BITS: u32 = 10;

    fn accessed(&self) -> u64 {
        entry::ACCESSED
    }

    #[inline(always)]
    fn is_present(&self, raw: u64) -> bool {
        raw & entry::PRESENT != 0
    }

    #[inline(always)]
    fn is_large(&self, raw: u64, _: u32) -> bool {
        raw & entry::LARGE != 0 && self.has_large
    }

    /// PSE-36 gives bits 20:13 to the address; bit 21 of a 4 MiB entry stays reserved.
    #[inline(always)]
    fn is_malformed(&self, raw: u64, level: u32, is_leaf: bool) -> bool {
        is_leaf && level == 2 && raw & 1 << 21 != 0
    }

    #[inline(always)]
    fn rights(&self, raw: u64) -> u64 {
        flat_rights(raw) | right::EXECUTE
    }

    #[inline(always)]
    fn table(&self, raw: u64) -> u64 {
        raw & Self::FRAME
    }
}

/// R/W and U/S lie beside each other in every format.
#[inline(always)]
fn flat_rights(raw: u64) -> u64 {
    const _: () = assert!(entry::WRITABLE == 2 && entry::USER == 4);
    raw >> 1 & (right::WRITE | right::USER)
}

//! Entries of page tables for host translation, version 1.
//! [IOMMU "I/O Page Tables for Host Translations"]

use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// [`PageEntry::next_level`] of a leaf whose address says its size.
pub const SIZED_LEAF: u8 = 7;

/// An entry at any level: a table, or a page.
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "PTE")]
pub struct PageEntry {
    /// `[0]` PR
    pub is_present: bool,
    #[bits(4)]
    __: u8,
    /// `[5]` A: used, where the device table entry says that this is kept
    pub is_accessed: bool,
    /// `[6]` D: written through, where the device table entry says that this is kept
    pub is_dirty: bool,
    #[bits(2)]
    __: u8,
    /// `[11:9]` 0: a page of the level's size; 1–6: a table of that level; 7: [`SIZED_LEAF`]
    #[bits(3)]
    pub next_level: u8,
    /// `[51:12]`
    #[bits(40)]
    pub frame: u64,
    #[bits(7)]
    __: u8,
    /// `[59]` U: an attribute for accesses by address translation services
    pub is_untranslated: bool,
    /// `[60]` FC: accesses are coherent whatever they ask for
    pub is_coherent: bool,
    /// `[61]` IR
    #[doc(alias = "IR")]
    pub is_readable: bool,
    /// `[62]` IW
    #[doc(alias = "IW")]
    pub is_writable: bool,
    __: bool,
}

impl PageEntry {
    /// Bit 0.
    pub const PRESENT: u64 = 1 << 0;
    /// Bit 61.
    pub const READABLE: u64 = 1 << 61;
    /// Bit 62.
    pub const WRITABLE: u64 = 1 << 62;
    /// What a table's entry for a table has reserved: bits 60:59 are of leaves.
    pub const RESERVED: u64 = 0x87F0_0000_0000_0000;

    /// Bits 51:12, of a table or of a page of the level's own size.
    pub const fn address(self) -> u64 {
        self.frame() << 12
    }

    /// Bits 51:12 of `address`; the others are dropped.
    pub const fn with_address(self, address: u64) -> Self {
        self.with_frame((address & super::ADDRESS) >> 12)
    }

    /// Log2 of the bytes that a [`SIZED_LEAF`] maps: one more than the place of the lowest zero
    /// from bit 12 on. 52 if there is none up to bit 51.
    pub const fn sized_page_bits(self) -> u32 {
        let bits = 12 + self.frame().trailing_ones() + 1;
        if bits > 52 { 52 } else { bits }
    }
}

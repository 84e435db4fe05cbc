//! Device table entries: what becomes of a function's accesses and interrupts.
//! [IOMMU "Device Table Entry Format"]

use crate::address::SystemPhysical;
use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// Bytes of an entry; its index is the requester ID.
pub const ENTRY_SIZE: u64 = 32;

/// An entry, in the halves that software may change one at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "DTE")]
pub struct DeviceTableEntry {
    /// Bits 127:0.
    pub translation: TranslationHalf,
    /// Bits 255:128.
    pub interrupts: InterruptHalf,
}

impl DeviceTableEntry {
    /// Decodes four quadwords, the lowest first.
    pub const fn from_quadwords(raw: [u64; 4]) -> Self {
        Self {
            translation: TranslationHalf::from_bits((raw[1] as u128) << 64 | raw[0] as u128),
            interrupts: InterruptHalf::from_bits((raw[3] as u128) << 64 | raw[2] as u128),
        }
    }

    /// Four quadwords, the lowest first.
    pub const fn into_quadwords(self) -> [u64; 4] {
        let (low, high) = (self.translation.into_bits(), self.interrupts.into_bits());
        [low as u64, (low >> 64) as u64, high as u64, (high >> 64) as u64]
    }
}

/// Bits 127:0.
#[bitfield(u128)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct TranslationHalf {
    /// `[0]` V: without it all accesses of the function pass
    pub is_valid: bool,
    /// `[1]` TV: mode and root count; without it accesses are translated to themselves
    pub has_translation: bool,
    #[bits(5)]
    __: u8,
    /// `[8:7]` HAD: accessed and dirty bits are kept
    #[bits(2)]
    pub host_access_dirty: u8,
    /// `[11:9]` levels of the tables, 0 (no translation) to 6; 7 is reserved
    #[bits(3)]
    #[doc(alias = "paging mode")]
    pub levels: u8,
    /// `[51:12]`
    #[bits(40)]
    pub root_frame: u64,
    /// `[52]` PPR
    pub has_page_requests: bool,
    /// `[53]` GPRP
    pub has_guest_page_request_protection: bool,
    /// `[54]` GIoV
    pub has_guest_io_protection: bool,
    /// `[55]` GV
    pub has_guest_translation: bool,
    /// `[57:56]` GLX
    #[bits(2)]
    pub guest_table_levels: u8,
    /// `[60:58]` bits 14:12 of the guest's CR3 table
    #[bits(3)]
    pub guest_root_low: u8,
    /// `[61]` IR: the function may read
    #[doc(alias = "IR")]
    pub is_readable: bool,
    /// `[62]` IW: the function may write
    #[doc(alias = "IW")]
    pub is_writable: bool,
    __: bool,
    /// `[79:64]`
    pub domain: u16,
    /// `[95:80]` bits 30:15 of the guest's CR3 table
    pub guest_root_middle: u16,
    /// `[96]` I: the function may hold translations (ATS)
    pub has_remote_tlb: bool,
    /// `[97]` SE: after one page fault of the function, no more are logged
    pub suppresses_further_events: bool,
    /// `[98]` SA: no page fault of the function is logged
    pub suppresses_all_events: bool,
    /// `[100:99]`
    #[bits(2)]
    pub port_control: u8,
    /// `[101]`
    pub is_uncached: bool,
    /// `[102]` SD
    pub disables_snoop: bool,
    /// `[103]` EX: the exclusion range holds for the function
    pub allows_exclusion: bool,
    /// `[105:104]`
    #[bits(2)]
    pub system_management: u8,
    /// `[106]`
    pub has_secure_translation_services: bool,
    /// `[127:107]` bits 51:31 of the guest's CR3 table
    #[bits(21)]
    pub guest_root_high: u32,
}

impl TranslationHalf {
    /// Where the tables begin.
    pub const fn root(self) -> SystemPhysical {
        SystemPhysical(self.root_frame() << 12)
    }

    /// Bits 51:12 of `root`; the others are dropped.
    pub const fn with_root(self, root: SystemPhysical) -> Self {
        self.with_root_frame((root.0 & super::ADDRESS) >> 12)
    }
}

/// What becomes of a function's fixed and arbitrated interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
#[doc(alias = "IntCtl")]
pub enum InterruptControl {
    /// They are aborted.
    Abort = 0,
    /// They pass as they are.
    Pass = 1,
    /// They are looked up in the function's table.
    Remap = 2,
    /// 3.
    Reserved = 3,
}

impl InterruptControl {
    /// Decodes the two-bit field; every value has a meaning, so this cannot fail.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Abort,
            1 => Self::Pass,
            2 => Self::Remap,
            _ => Self::Reserved,
        }
    }

    /// The two bits 189:188.
    pub const fn into_bits(self) -> u8 {
        self as u8
    }
}

/// Bits 255:128.
#[bitfield(u128)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptHalf {
    /// `[128]` IV: without it all interrupts of the function pass
    pub is_valid: bool,
    /// `[132:129]` IntTabLen: log2 of the table's entries, 0 to 11; others are reserved
    #[bits(4)]
    pub table_length: u8,
    /// `[133]` IG: faults of interrupts are not logged
    pub suppresses_events: bool,
    /// `[179:134]` bits 51:6 of the table's address
    #[bits(46)]
    pub table_line: u64,
    #[bits(4)]
    __: u8,
    /// `[184]` INIT passes
    pub passes_init: bool,
    /// `[185]` ExtINT passes
    pub passes_ext_int: bool,
    /// `[186]` NMI passes
    pub passes_nmi: bool,
    __: bool,
    /// `[189:188]`
    #[bits(2)]
    pub control: InterruptControl,
    /// `[190]`
    pub passes_lint0: bool,
    /// `[191]`
    pub passes_lint1: bool,
    #[bits(54)]
    __: u64,
    /// `[246]`
    pub has_attributes: bool,
    /// `[247]`
    pub replaces_attributes: bool,
    /// `[255:248]`
    pub snoop_attributes: u8,
}

impl InterruptHalf {
    /// The most that [`Self::table_length`] may be: 2,048 entries.
    pub const LONGEST: u8 = 11;

    /// Where the interrupt remapping table begins.
    pub const fn table(self) -> SystemPhysical {
        SystemPhysical(self.table_line() << 6)
    }

    /// Bits 51:6 of `table`; the others are dropped.
    pub const fn with_table(self, table: SystemPhysical) -> Self {
        self.with_table_line(table.0 >> 6 & ((1 << 46) - 1))
    }
}

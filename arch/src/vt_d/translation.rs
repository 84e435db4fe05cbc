//! Tables of legacy mode: root, context, and second level. [VTD "Legacy Mode Address Translation"]

use crate::address::SystemPhysical;
use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// Bytes of a [`RootEntry`], whose index is the bus, and of a [`ContextEntry`], whose index is
/// device and function.
pub const ENTRY_SIZE: u64 = 16;

/// The context table of a bus. [VTD "Root Entry"]
#[bitfield(u128)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct RootEntry {
    /// `[0]` P
    pub is_present: bool,
    /// `[11:1]` must be zero
    #[bits(11)]
    pub reserved: u16,
    /// `[63:12]`
    #[bits(52)]
    pub frame: u64,
    /// `[127:64]` must be zero
    pub reserved_high: u64,
}

impl RootEntry {
    /// Address of the context table.
    pub const fn table(self) -> SystemPhysical {
        SystemPhysical(self.frame() << 12)
    }
}

/// What becomes of a function's accesses. [VTD "Context Entry"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum TranslationType {
    /// 0: they are translated; requests for translations are refused.
    Untranslated = 0,
    /// 1: they are translated, and so are requests for translations.
    DeviceCache = 1,
    /// 2: they pass; needs [`super::ExtendedCapability::has_pass_through`].
    PassThrough = 2,
    /// 3.
    Reserved = 3,
}

impl TranslationType {
    /// Decodes the two-bit field; every value has a meaning, so this cannot fail.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Untranslated,
            1 => Self::DeviceCache,
            2 => Self::PassThrough,
            _ => Self::Reserved,
        }
    }

    /// The two bits 3:2.
    pub const fn into_bits(self) -> u8 {
        self as u8
    }
}

/// The tables of a function. [VTD "Context Entry"]
#[bitfield(u128)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextEntry {
    /// `[0]` P
    pub is_present: bool,
    /// `[1]` FPD: faults of the function are not recorded
    pub suppresses_faults: bool,
    /// `[3:2]`
    #[bits(2)]
    pub kind: TranslationType,
    /// `[11:4]` must be zero
    pub reserved: u8,
    /// `[63:12]`
    #[bits(52)]
    pub frame: u64,
    /// `[66:64]` AW: levels less two: 1 is three levels
    #[bits(3)]
    pub width: u8,
    /// `[70:67]` software's
    #[bits(4)]
    pub ignored: u8,
    /// `[71]` must be zero
    pub reserved_middle: bool,
    /// `[87:72]`
    pub domain: u16,
    /// `[127:88]` must be zero
    #[bits(40)]
    pub reserved_high: u64,
}

impl ContextEntry {
    /// Address of the first second-level table.
    pub const fn table(self) -> SystemPhysical {
        SystemPhysical(self.frame() << 12)
    }

    /// Whether a bit is set that must not be.
    pub const fn has_reserved_bits(self) -> bool {
        self.reserved() != 0 || self.reserved_middle() || self.reserved_high() != 0
    }
}

/// A second-level entry of legacy mode. Software may keep the tables of a guest's memory in the
/// same place: what means something to a processor and nothing here is ignored.
/// [VTD "Second-Level Paging Entries"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondLevelEntry {
    /// `[0]` R
    pub is_readable: bool,
    /// `[1]` W
    pub is_writable: bool,
    /// `[6:2]` ignored: execution, memory type, IPAT of a processor's tables
    #[bits(5)]
    pub ignored: u8,
    /// `[7]` PS: maps a page instead of a table
    pub is_large: bool,
    /// `[10:8]` ignored
    #[bits(3)]
    pub ignored_middle: u8,
    /// `[11]` SNP of a leaf: accesses are coherent; reserved without snoop control
    pub is_snooped: bool,
    /// `[51:12]`
    #[bits(40)]
    pub frame: u64,
    /// `[61:52]` ignored
    #[bits(10)]
    pub ignored_high: u16,
    /// `[62]` TM of a leaf, for devices that cache translations
    pub is_transient: bool,
    /// `[63]` ignored
    pub ignored_last: bool,
}

impl SecondLevelEntry {
    /// Bit 0.
    pub const READABLE: u64 = 1 << 0;
    /// Bit 1.
    pub const WRITABLE: u64 = 1 << 1;
    /// Bit 7.
    pub const LARGE: u64 = 1 << 7;
    /// Bits 51:12.
    pub const ADDRESS: u64 = 0x000F_FFFF_FFFF_F000;
}

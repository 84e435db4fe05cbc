//! Extended page tables and what hangs on them. [SDM3 "The Extended Page Table Mechanism (EPT)"]

use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// The EPT pointer, field 201Ah. [SDM3 "Extended-Page-Table Pointer (EPTP)"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "EPTP")]
pub struct EptPointer {
    /// \[2:0\] 0 uncacheable, 6 write-back.
    #[bits(3)]
    pub memory_type: u8,
    /// \[5:3\] levels of the walk less one.
    #[bits(3)]
    pub levels_less_one: u8,
    /// \[6\] accessed and dirty flags are kept.
    pub keeps_accessed_and_dirty: bool,
    /// \[7\] SSS: enforce supervisor shadow stack pages.
    pub checks_shadow_stack: bool,
    /// \[11:8\]
    #[bits(4)]
    pub reserved: u8,
    /// \[51:12\] and above, the root table; bits above the physical width must be zero.
    #[bits(52)]
    pub root_frame: u64,
}

impl EptPointer {
    /// Memory type of the tables, for [`Self::memory_type`].
    pub const UNCACHEABLE: u8 = 0;
    /// Memory type of the tables, for [`Self::memory_type`].
    pub const WRITE_BACK: u8 = 6;

    /// What cached translations are tagged with: bits 51:12.
    /// [SDM3 "Caching Translation Information"]
    #[doc(alias = "EP4TA")]
    pub const fn root(self) -> u64 {
        self.into_bits() & TABLE_BITS
    }
}

/// Bits 51:12.
const TABLE_BITS: u64 = 0x000F_FFFF_FFFF_F000;

/// An EPT paging-structure entry at any level.
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct EptEntry {
    /// \[0\]
    pub is_readable: bool,
    /// \[1\]
    pub is_writable: bool,
    /// \[2\] for supervisor-mode linear addresses alone, with mode-based execute control.
    pub is_executable: bool,
    /// \[5:3\] of a leaf.
    #[bits(3)]
    pub memory_type: u8,
    /// \[6\] IPAT of a leaf: the guest's PAT has no say.
    pub ignores_pat: bool,
    /// \[7\] maps a page instead of a table; ignored at the last level.
    pub is_large: bool,
    /// \[8\]
    pub is_accessed: bool,
    /// \[9\] of a leaf.
    pub is_dirty: bool,
    /// \[10\] for user-mode linear addresses, with mode-based execute control.
    pub is_user_executable: bool,
    __: bool,
    /// \[51:12\]
    #[bits(40)]
    pub frame: u64,
    #[bits(11)]
    __: u16,
    /// \[63\] violations exit although they could raise #VE.
    pub suppresses_exception: bool,
}

impl EptEntry {
    /// Bit 0.
    pub const READABLE: u64 = 1 << 0;
    /// Bit 1.
    pub const WRITABLE: u64 = 1 << 1;
    /// Bit 2.
    pub const EXECUTABLE: u64 = 1 << 2;
    /// Bit 7.
    pub const LARGE: u64 = 1 << 7;
    /// Bit 8.
    pub const ACCESSED: u64 = 1 << 8;
    /// Bit 9.
    pub const DIRTY: u64 = 1 << 9;
    /// Bit 10.
    pub const USER_EXECUTABLE: u64 = 1 << 10;
    /// Memory types that no leaf may have.
    pub const fn has_reserved_memory_type(self) -> bool {
        matches!(self.memory_type(), 2 | 3 | 7)
    }

    /// Bits that must be zero in a present entry that points to a table.
    pub const fn reserved_in_table(level: u8) -> u64 {
        // 7:3 at the fourth level and above, 6:3 below, where bit 7 would make it a leaf.
        if level >= 4 { 0xF8 } else { 0x78 }
    }

    /// Bits below the frame that must be zero in a leaf of `level`.
    pub const fn reserved_in_leaf(level: u8) -> u64 {
        match level {
            2 => 0x001F_F000,
            3 => 0x3FFF_F000,
            _ => 0,
        }
    }
}

/// Entries of the page-modification log, counted down from 511.
/// [SDM3 "Page-Modification Logging"]
pub const LOG_ENTRIES: u16 = 512;

/// The virtualization-exception information area. [SDM3 "Virtualization-Exception Information"]
pub mod exception_area {
    /// Four bytes: the basic reason of an exit in its place, 48.
    pub const EXIT_REASON: u64 = 0;
    /// FFFF_FFFFh while the area is in use; no further #VE until software clears it.
    pub const BUSY: u64 = 4;
    /// Eight bytes: what the exit qualification would hold.
    pub const QUALIFICATION: u64 = 8;
    /// Eight bytes: the guest-linear address.
    pub const LINEAR_ADDRESS: u64 = 16;
    /// Eight bytes: the guest-physical address.
    pub const PHYSICAL_ADDRESS: u64 = 24;
    /// Two bytes: the index of the EPT pointer in use.
    pub const EPTP_INDEX: u64 = 32;
}

/// What INVEPT drops. [SDM3 "INVEPT"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InveptType {
    /// Those of the EPT pointer in the descriptor.
    SingleContext,
    /// Those of every EPT pointer.
    AllContexts,
}

impl InveptType {
    /// `None` for a register operand that names no type: VMfail.
    pub const fn from_operand(operand: u64) -> Option<Self> {
        match operand {
            1 => Some(Self::SingleContext),
            2 => Some(Self::AllContexts),
            _ => None,
        }
    }
}

/// What INVVPID drops. [SDM3 "INVVPID"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InvvpidType {
    /// Those of the descriptor's linear address and VPID.
    Address,
    /// Those of the descriptor's VPID.
    SingleContext,
    /// Those of every VPID but 0.
    AllContexts,
    /// Those of the descriptor's VPID, without global pages.
    SingleContextExceptGlobals,
}

impl InvvpidType {
    /// `None` for a register operand that names no type: VMfail.
    pub const fn from_operand(operand: u64) -> Option<Self> {
        match operand {
            0 => Some(Self::Address),
            1 => Some(Self::SingleContext),
            2 => Some(Self::AllContexts),
            3 => Some(Self::SingleContextExceptGlobals),
            _ => None,
        }
    }
}

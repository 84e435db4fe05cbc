//! Segments as the VMCS keeps them. [SDM3 "Guest Register State"]

use crate::segment::Attributes;
use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// An access-rights field: the descriptor's bits 55:40 and whether the register is unusable.
#[bitfield(u32)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessRights {
    /// \[3:0\] type
    #[bits(4)]
    pub kind: u8,
    /// \[4\] S: code or data; clear for system segments.
    pub is_code_or_data: bool,
    /// \[6:5\] DPL
    #[bits(2)]
    pub privilege: u8,
    /// \[7\] P
    pub is_present: bool,
    /// \[11:8\]
    #[bits(4)]
    pub reserved_low: u8,
    /// \[12\] AVL
    pub available: bool,
    /// \[13\] L
    pub is_long: bool,
    /// \[14\] D/B
    pub is_default_big: bool,
    /// \[15\] G
    pub is_page_granular: bool,
    /// \[16\] loaded with a null selector, or never.
    pub is_unusable: bool,
    /// \[31:17\]
    #[bits(15)]
    pub reserved_high: u16,
}

impl AccessRights {
    /// What a register holds that cannot be used.
    pub const UNUSABLE: Self = Self::from_bits(1 << 16);
    /// Every bit that a virtual-8086 segment must have: present, DPL 3, accessed data.
    pub const VIRTUAL_8086: Self = Self::from_bits(0xF3);

    /// The attributes packed to twelve bits; the unusable bit has no place there.
    pub const fn attributes(self) -> Attributes {
        let bits = self.into_bits();
        Attributes((bits & 0xFF | bits >> 4 & 0xF00) as u16)
    }

    /// Usable, with the other bits spread to their places.
    pub const fn from_attributes(attributes: Attributes) -> Self {
        let bits = attributes.0 as u32;
        Self::from_bits(bits & 0xFF | (bits & 0xF00) << 4)
    }

    /// Whether a bit that must be zero is set.
    pub const fn has_reserved_bits(self) -> bool {
        self.reserved_low() != 0 || self.reserved_high() != 0
    }
}

/// TR's limit after a VM exit. [SDM3 "Loading Host Segment and Descriptor-Table Registers"]
pub const HOST_TR_LIMIT: u32 = 0x67;
/// The limit of GDTR and IDTR after a VM exit.
pub const HOST_TABLE_LIMIT: u32 = 0xFFFF;

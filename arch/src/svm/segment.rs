//! Segment attributes as the VMCB packs them. [APM2 "VMCB State Save Area"]

use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// Descriptor bits 55:52 and 47:40, packed into twelve.
#[bitfield(u16)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentAttributes {
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
    /// \[8\] AVL
    pub available: bool,
    /// \[9\] L
    pub is_long: bool,
    /// \[10\] D/B
    pub is_default_big: bool,
    /// \[11\] G
    pub is_page_granular: bool,
    #[bits(4)]
    __: u8,
}

impl SegmentAttributes {
    /// From the high dword of a descriptor, where the same bits lie at 23:20 and 15:8.
    pub const fn from_descriptor_high(high: u32) -> Self {
        Self::from_bits(((high >> 8 & 0xFF) | (high >> 12 & 0xF00)) as u16)
    }

    /// Into the high dword of a descriptor, all other bits zero.
    pub const fn into_descriptor_high(self) -> u32 {
        let bits = self.into_bits() as u32;
        (bits & 0xFF) << 8 | (bits & 0xF00) << 12
    }
}

/// A segment of the save area: selector, attributes, limit, base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Segment {
    /// RPL in bits 1:0, table indicator in bit 2; unused in GDTR and IDTR.
    pub selector: u16,
    /// Unused in GDTR and IDTR.
    pub attributes: SegmentAttributes,
    /// In bytes, granularity applied.
    pub limit: u32,
    /// Linear; VMRUN makes it canonical.
    pub base: u64,
}

//! Interrupt remapping: messages in remappable format, and table entries.
//! [VTD "Interrupt Remapping"]

use crate::address::SystemPhysical;
use crate::apic::{DeliveryMode, DestinationMode};
use crate::identity::RequesterId;
use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// Bytes of an entry.
pub const ENTRY_SIZE: u64 = 16;

/// The low 32 bits of a message's address in remappable format.
/// [VTD "Interrupt Requests in Remappable Format"]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct RemappableAddress {
    #[bits(2)]
    __: u8,
    /// `[2]` bit 15 of the handle
    #[bits(1)]
    pub handle_high: u8,
    /// `[3]` SHV: data bits 15:0 are added to the handle
    pub has_subhandle: bool,
    /// `[4]` 1
    pub is_remappable: bool,
    /// `[19:5]` bits 14:0 of the handle
    #[bits(15)]
    pub handle_low: u16,
    /// `[31:20]` FEEh
    #[bits(12)]
    pub window: u16,
}

impl RemappableAddress {
    /// The entry that a message with this data selects; nothing where data has reserved bits.
    pub const fn index(self, data: u32) -> Option<u32> {
        let handle = (self.handle_high() as u32) << 15 | self.handle_low() as u32;
        if !self.has_subhandle() {
            return Some(handle);
        }
        if data >> 16 != 0 { None } else { Some(handle + (data & 0xFFFF)) }
    }
}

/// Bits 83:64 of an entry: whose interrupts it takes. [VTD "Source Validation Type"]
#[bitfield(u32)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceCheck {
    /// `[15:0]` SID
    pub source: u16,
    /// `[17:16]` SQ: how many of the function number's bits are ignored, from the third down
    #[bits(2)]
    pub qualifier: u8,
    /// `[19:18]` SVT: 0 none, 1 by SID and SQ, 2 by a range of buses
    #[bits(2)]
    pub kind: u8,
    #[bits(12)]
    __: u16,
}

impl SourceCheck {
    /// Whether the entry takes interrupts of `requester`. The reserved type takes none.
    pub const fn accepts(self, requester: RequesterId) -> bool {
        let ignored = match self.qualifier() {
            0 => 0,
            1 => 0b100,
            2 => 0b110,
            _ => 0b111u16,
        };
        let bus = requester.0 >> 8;
        match self.kind() {
            0 => true,
            1 => (self.source() ^ requester.0) & !ignored == 0,
            2 => self.source() >> 8 <= bus && bus <= self.source() & 0xFF,
            _ => false,
        }
    }
}

/// An entry that makes another interrupt of the processors'.
/// [VTD "Interrupt Remapping Table Entry (IRTE) for Remapped Interrupts"]
#[bitfield(u128)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "IRTE")]
pub struct RemappedEntry {
    /// `[0]` P
    pub is_present: bool,
    /// `[1]` FPD: faults of this entry are not recorded
    pub suppresses_faults: bool,
    /// `[2]` DM
    #[bits(1)]
    pub destination_mode: DestinationMode,
    /// `[3]` RH
    pub is_redirectable: bool,
    /// `[4]` TM
    pub is_level: bool,
    /// `[7:5]` DLM
    #[bits(3)]
    pub delivery_mode: DeliveryMode,
    /// `[11:8]` software's
    #[bits(4)]
    pub available: u8,
    /// `[14:12]` must be zero
    #[bits(3)]
    pub reserved: u8,
    /// `[15]` IM: the entry is a [`PostedEntry`]
    pub is_posted: bool,
    /// `[23:16]`
    pub vector: u8,
    /// `[31:24]` must be zero
    pub reserved_middle: u8,
    /// `[63:32]` DST: all 32 bits, or bits 15:8 in xAPIC mode
    pub destination: u32,
    /// `[83:64]`
    #[bits(20)]
    pub source: u32,
    /// `[127:84]` must be zero
    #[bits(44)]
    pub reserved_high: u64,
}

impl RemappedEntry {
    /// Whose interrupts it takes.
    pub const fn check(self) -> SourceCheck {
        SourceCheck::from_bits(self.source())
    }

    /// Whether a bit is set that must not be, with destinations of 32 or of eight bits.
    pub const fn has_reserved_bits(self, is_x2apic: bool) -> bool {
        let destination = if is_x2apic { 0 } else { self.destination() & !0xFF00 };
        self.reserved() != 0
            || self.reserved_middle() != 0
            || self.reserved_high() != 0
            || destination != 0
    }
}

/// An entry that posts to a vCPU.
/// [VTD "Interrupt Remapping Table Entry (IRTE) for Posted Interrupts"]
#[bitfield(u128)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "IRTE")]
pub struct PostedEntry {
    /// `[0]` P
    pub is_present: bool,
    /// `[1]` FPD: faults of this entry are not recorded
    pub suppresses_faults: bool,
    /// `[7:2]` must be zero
    #[bits(6)]
    pub reserved: u8,
    /// `[11:8]` software's
    #[bits(4)]
    pub available: u8,
    /// `[13:12]` must be zero
    #[bits(2)]
    pub reserved_middle: u8,
    /// `[14]` URG: notifies although notifications are suppressed
    #[doc(alias = "URG")]
    pub is_urgent: bool,
    /// `[15]` IM: 1
    pub is_posted: bool,
    /// `[23:16]` as the guest has it
    pub vector: u8,
    /// `[37:24]` must be zero
    #[bits(14)]
    pub reserved_address: u16,
    /// `[63:38]` bits 31:6 of the posted-interrupt descriptor's address
    #[bits(26)]
    pub descriptor_low: u32,
    /// `[83:64]`
    #[bits(20)]
    pub source: u32,
    /// `[95:84]` must be zero
    #[bits(12)]
    pub reserved_high: u16,
    /// `[127:96]` bits 63:32 of the posted-interrupt descriptor's address
    pub descriptor_high: u32,
}

impl PostedEntry {
    /// Whose interrupts it takes.
    pub const fn check(self) -> SourceCheck {
        SourceCheck::from_bits(self.source())
    }

    /// Address of the posted-interrupt descriptor.
    pub const fn descriptor(self) -> SystemPhysical {
        SystemPhysical((self.descriptor_high() as u64) << 32 | (self.descriptor_low() as u64) << 6)
    }

    /// Bits 63:6 of `descriptor`; the others are dropped.
    pub const fn with_descriptor(self, descriptor: SystemPhysical) -> Self {
        self.with_descriptor_low((descriptor.0 >> 6) as u32 & 0x03FF_FFFF)
            .with_descriptor_high((descriptor.0 >> 32) as u32)
    }

    /// Whether a bit is set that must not be.
    pub const fn has_reserved_bits(self) -> bool {
        self.reserved() != 0
            || self.reserved_middle() != 0
            || self.reserved_address() != 0
            || self.reserved_high() != 0
    }
}

//! The posted-interrupt descriptor, and the table through which IPI virtualization finds it.

use crate::address::SystemPhysical;
use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// Bytes in a posted-interrupt descriptor, which is aligned to as many: 256 bits of requests (PIR),
/// then [`NotificationControl`], then 24 bytes that software may use.
/// [SDM3 "Posted-Interrupt Processing"] [VTD "Posted Interrupt Descriptor (PID)"]
#[doc(alias = "PID")]
pub const POSTED_DESCRIPTOR_SIZE: u64 = 64;

/// Where [`NotificationControl`] lies in the descriptor.
pub const POSTED_CONTROL_OFFSET: u64 = 32;

/// Bits 319:256 of a posted-interrupt descriptor. The receiving processor looks at and clears
/// [`NotificationControl::is_outstanding`] alone; the rest tells senders whom to notify.
/// [SDM3 "Posted-Interrupt Processing"] [VTD "Posted Interrupt Descriptor (PID)"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NotificationControl {
    /// \[256\] a notification is on its way and has not been processed (ON)
    #[doc(alias = "ON")]
    pub is_outstanding: bool,
    /// \[257\] senders post without notifying (SN)
    #[doc(alias = "SN")]
    pub is_suppressed: bool,
    /// \[271:258\]
    #[bits(14)]
    pub reserved: u16,
    /// \[279:272\] the physical vector of notifications (NV)
    #[doc(alias = "NV")]
    pub vector: u8,
    /// \[287:280\]
    pub reserved_high: u8,
    /// \[319:288\] the physical APIC ID to notify (NDST): all 32 bits, or bits 15:8 in xAPIC mode
    #[doc(alias = "NDST")]
    pub destination: u32,
}

impl NotificationControl {
    /// Whether bits 271:258 or 287:280 are other than zero.
    pub const fn has_reserved_bits(self) -> bool {
        self.reserved() != 0 || self.reserved_high() != 0
    }

    /// The APIC ID to notify, as the sender's mode reads it.
    pub const fn apic_id(self, is_x2apic: bool) -> u32 {
        if is_x2apic { self.destination() } else { self.destination() >> 8 & 0xFF }
    }
}

/// Bytes in an entry of the PID-pointer table.
pub const PID_POINTER_SIZE: u64 = 8;

/// An entry of the PID-pointer table, whose index is the target's virtual APIC ID.
/// [SDM3 "IPI Virtualization"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PidPointer {
    /// \[0\]
    pub is_valid: bool,
    /// \[5:1\] must be zero
    #[bits(5)]
    pub reserved: u8,
    /// \[63:6\] of the descriptor's physical address
    #[bits(58)]
    pub descriptor_number: u64,
}

impl PidPointer {
    /// Physical address of the target's descriptor.
    pub const fn descriptor(self) -> SystemPhysical {
        SystemPhysical(self.descriptor_number() << 6)
    }

    /// Bits 63:6 of `descriptor`; the others are dropped.
    pub const fn with_descriptor(self, descriptor: SystemPhysical) -> Self {
        self.with_descriptor_number(descriptor.0 >> 6)
    }

    /// Whether a processor with so many physical-address bits uses the entry.
    pub const fn is_legal(self, physical_address_bits: u8) -> bool {
        self.is_valid() && self.reserved() == 0 && self.into_bits() >> physical_address_bits == 0
    }
}

const _: () = {
    let control = NotificationControl::new();
    assert!(control.with_is_outstanding(true).into_bits() == 1);
    assert!(control.with_is_suppressed(true).into_bits() == 2);
    assert!(control.with_vector(0xF2).into_bits() == 0xF2_0000);
    assert!(control.with_destination(0x0000_0500).into_bits() == 0x500_0000_0000);
    assert!(control.with_destination(0x0000_0500).apic_id(false) == 5);
    assert!(control.with_destination(0x0000_0500).apic_id(true) == 0x500);
    let pointer = PidPointer::new().with_descriptor(SystemPhysical(0x1234_5640));
    assert!(pointer.with_is_valid(true).into_bits() == 0x1234_5641);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_legal_if_valid_without_reserved_or_distant_bits() {
        for (bits, is_legal) in [
            (0x0000_0000_0000_0001, true),
            (0x0000_3FFF_FFFF_FFC1, true),
            (0x0000_0000_0001_0040, false),
            (0x0000_0000_0001_0043, false),
            (0x0000_0000_0001_0061, false),
            (0x0000_4000_0000_0001, false),
            (0x8000_0000_0000_0001, false),
        ] {
            assert_eq!(PidPointer::from_bits(bits).is_legal(46), is_legal, "{bits:#x}");
        }
    }
}

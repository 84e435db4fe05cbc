//! User interrupts: structures in memory, and fields of the MSRs. [SDM3 "User Interrupts"]

use crate::address::Linear;
pub use crate::vmx::apicv::NotificationControl;
use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// User-interrupt vectors are below this.
pub const VECTORS: u8 = 64;

/// Bytes in an entry of the user-interrupt target table.
pub const UITTE_SIZE: u64 = 16;

/// An entry of the user-interrupt target table (UITT): where SENDUIPI posts, and what.
/// [SDM2 "SENDUIPI"]
#[bitfield(u128)]
#[derive(PartialEq, Eq)]
pub struct Uitte {
    /// \[0\] (V)
    #[doc(alias = "V")]
    pub is_valid: bool,
    /// \[7:1\] must be zero
    #[bits(7)]
    pub reserved: u8,
    /// \[15:8\] the user-interrupt vector, below [`VECTORS`] (UV)
    #[doc(alias = "UV")]
    pub vector: u8,
    /// \[63:16\] must be zero
    #[bits(48)]
    pub reserved_high: u64,
    /// \[127:64\] linear address of the receiver's descriptor (UPIDADDR)
    #[doc(alias = "UPIDADDR")]
    pub descriptor: u64,
}

impl Uitte {
    /// Whether SENDUIPI uses the entry; it raises #GP for others.
    pub const fn is_legal(self) -> bool {
        self.is_valid()
            && self.reserved() == 0
            && self.reserved_high() == 0
            && self.vector() < VECTORS
            && self.descriptor() & (UPID_ALIGNMENT - 1) == 0
    }

    /// The receiver's descriptor.
    pub const fn descriptor_address(self) -> Linear {
        Linear(self.descriptor())
    }
}

/// A user posted-interrupt descriptor (UPID) is aligned to so many bytes. Its first eight have the
/// fields of a posted-interrupt descriptor's [`NotificationControl`], ON, SN, NV and NDST; the next
/// eight hold a request (PIR) for each vector. [SDM3 "User Posted-Interrupt Descriptor"]
#[doc(alias = "UPID")]
pub const UPID_ALIGNMENT: u64 = 64;

/// Where the requests lie in a descriptor.
pub const UPID_REQUESTS_OFFSET: u64 = 8;

/// IA32_UINTR_MISC (988h). [SDM3 "User-Interrupt MSRs"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct UintrMisc {
    /// \[31:0\] the highest index in the target table (UITTSZ)
    #[doc(alias = "UITTSZ")]
    pub last_target: u32,
    /// \[39:32\] the vector of interrupts that are notifications (UINV)
    #[doc(alias = "UINV")]
    pub notification_vector: u8,
    /// \[62:40\] reserved
    #[bits(23)]
    pub reserved: u32,
    /// \[63\] reserved in the MSR; UIF in the state that XSAVES stores
    pub stored_flag: bool,
}

impl UintrMisc {
    /// Bits that WRMSR refuses.
    pub const RESERVED: u64 = !0xFF_FFFF_FFFF;
}

/// IA32_UINTR_TT (98Ah). [SDM3 "User-Interrupt MSRs"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct UintrTargets {
    /// \[0\] SENDUIPI is enabled
    pub is_enabled: bool,
    /// \[3:1\] reserved
    #[bits(3)]
    pub reserved: u8,
    /// \[63:4\] of the table's linear address (UITTADDR)
    #[doc(alias = "UITTADDR")]
    #[bits(60)]
    pub table_number: u64,
}

impl UintrTargets {
    /// Bits that WRMSR refuses, beside addresses that are not canonical.
    pub const RESERVED: u64 = 0xE;

    /// Of the table's first entry.
    pub const fn table(self) -> Linear {
        Linear(self.table_number() << 4)
    }
}

/// Bits of IA32_UINTR_PD (989h) that WRMSR refuses, beside addresses that are not canonical.
pub const DESCRIPTOR_RESERVED: u64 = UPID_ALIGNMENT - 1;

/// The supervisor state component of XSAVES that holds the user-interrupt state.
/// [SDM1 "User-Interrupt State"]
pub mod component {
    /// Its bit in IA32_XSS and XSTATE_BV.
    pub const NUMBER: u32 = 14;
    /// Its bytes.
    pub const SIZE: usize = 48;
    /// Offset of the handler's address.
    pub const HANDLER: usize = 0;
    /// Offset of the stack adjustment.
    pub const STACK_ADJUSTMENT: usize = 8;
    /// Offset of [`UintrMisc`](super::UintrMisc), with UIF in bit 63.
    pub const MISC: usize = 16;
    /// Offset of the descriptor's address.
    pub const DESCRIPTOR: usize = 24;
    /// Offset of the requests.
    pub const REQUESTS: usize = 32;
    /// Offset of [`UintrTargets`](super::UintrTargets).
    pub const TARGETS: usize = 40;
}

const _: () = {
    let entry = Uitte::new().with_is_valid(true).with_vector(0x2A).with_descriptor(0x1240);
    assert!(entry.into_bits() == 0x1240 << 64 | 0x2A01);
    let misc = UintrMisc::new().with_last_target(3).with_notification_vector(0xEC);
    assert!(misc.into_bits() == 0xEC_0000_0003);
    assert!(UintrTargets::from_bits(0x7FF1).table().0 == 0x7FF0);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_legal_if_valid_with_a_vector_below_64_and_an_aligned_descriptor() {
        for (low, descriptor, is_legal) in [
            (0x0000_0001, 0x1000, true),
            (0x0000_3F01, 0x10C0, true),
            (0x0000_3F00, 0x1000, false),
            (0x0000_4001, 0x1000, false),
            (0x0000_8001, 0x1000, false),
            (0x0000_0003, 0x1000, false),
            (0x0000_0081, 0x1000, false),
            (0x0001_0001, 0x1000, false),
            (0x8000_0000_0000_0001, 0x1000, false),
            (0x0000_0001, 0x1001, false),
            (0x0000_0001, 0x1020, false),
        ] {
            let entry = Uitte::from_bits(low | descriptor << 64);
            assert_eq!(entry.is_legal(), is_legal, "{low:#x} {descriptor:#x}");
        }
    }
}

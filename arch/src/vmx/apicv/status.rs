//! Guest interrupt status, the VMCS field 0810h.

use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// What virtual-interrupt delivery keeps beside the virtual-APIC page.
/// [SDM3 "Guest Non-Register State"]
#[bitfield(u16)]
#[derive(PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GuestInterruptStatus {
    /// \[7:0\] the highest requested vector, zero for none (RVI)
    #[doc(alias = "RVI")]
    pub requesting: u8,
    /// \[15:8\] the highest vector in service, zero for none (SVI)
    #[doc(alias = "SVI")]
    pub servicing: u8,
}

const _: () = {
    let status = GuestInterruptStatus::new().with_requesting(0x31).with_servicing(0x52);
    assert!(status.into_bits() == 0x5231);
};

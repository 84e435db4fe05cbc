//! The error status register.

use bitflags::bitflags;

bitflags! {
    /// What went wrong, 280h. Software writes it (zero in x2APIC mode) to see what has gathered
    /// since the last write. [APM2 "Error Interrupts"] [SDM3 "Error Handling"]
    #[doc(alias = "ESR")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Esr: u32 {
        const SEND_CHECKSUM = 1 << 0;
        const RECEIVE_CHECKSUM = 1 << 1;
        #[doc(alias = "SAE")]
        const SEND_ACCEPT = 1 << 2;
        #[doc(alias = "RAE")]
        const RECEIVE_ACCEPT = 1 << 3;
        const REDIRECTABLE_IPI = 1 << 4;
        #[doc(alias = "SIV")]
        const SEND_ILLEGAL_VECTOR = 1 << 5;
        #[doc(alias = "RIV")]
        const RECEIVE_ILLEGAL_VECTOR = 1 << 6;
        #[doc(alias = "IRA")]
        const ILLEGAL_REGISTER_ADDRESS = 1 << 7;
        const _ = !0;
    }
}

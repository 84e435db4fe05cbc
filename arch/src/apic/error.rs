//! The error status register.

use bitflags::bitflags;

bitflags! {
    /// What went wrong, 280h. Software writes it (zero in x2APIC mode) to see what has gathered
    /// since the last write. [APM2 "Error Interrupts"] [SDM3 "Error Handling"]
    #[doc(alias = "ESR")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Esr: u32 {
        /// A message was sent with a bad checksum, on parts with an APIC bus.
        const SEND_CHECKSUM = 1 << 0;
        /// A message arrived with a bad checksum, on parts with an APIC bus.
        const RECEIVE_CHECKSUM = 1 << 1;
        /// No APIC accepted a message that was sent.
        #[doc(alias = "SAE")]
        const SEND_ACCEPT = 1 << 2;
        /// A message that was received was not accepted, by this or any other APIC.
        #[doc(alias = "RAE")]
        const RECEIVE_ACCEPT = 1 << 3;
        /// A lowest-priority IPI was commanded where those do not exist.
        const REDIRECTABLE_IPI = 1 << 4;
        /// The ICR or the self-IPI register was to send a vector below 16.
        #[doc(alias = "SIV")]
        const SEND_ILLEGAL_VECTOR = 1 << 5;
        /// A vector below 16 arrived, or came from the local vector table or a self-IPI.
        #[doc(alias = "RIV")]
        const RECEIVE_ILLEGAL_VECTOR = 1 << 6;
        /// A register that does not exist was accessed, in xAPIC mode.
        #[doc(alias = "IRA")]
        const ILLEGAL_REGISTER_ADDRESS = 1 << 7;
        const _ = !0;
    }
}

//! Events that VMRUN injects and that #VMEXIT reports as interrupted. [APM2 "Event Injection"]

use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// EVENTINJ and EXITINTINFO.
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "EVENTINJ")]
#[doc(alias = "EXITINTINFO")]
pub struct Injection {
    /// \[7:0\]
    pub vector: u8,
    /// \[10:8\]
    #[bits(3)]
    pub event_type: EventType,
    /// \[11\] EV
    pub has_error_code: bool,
    #[bits(19)]
    __: u32,
    /// \[31\] V
    pub is_valid: bool,
    /// \[63:32\]
    pub error_code: u32,
}

/// What kind of event a vector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EventType {
    /// An external or virtual interrupt.
    Interrupt,
    /// The vector is ignored.
    Nmi,
    /// A vector below 32, other than that of NMI.
    Exception,
    /// INTn
    SoftwareInterrupt,
    /// 1, 5, 6 or 7
    Reserved(u8),
}

impl EventType {
    /// Decodes bits 10:8.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 7 {
            0 => Self::Interrupt,
            2 => Self::Nmi,
            3 => Self::Exception,
            4 => Self::SoftwareInterrupt,
            other => Self::Reserved(other),
        }
    }

    /// Bits 10:8.
    pub const fn into_bits(self) -> u8 {
        match self {
            Self::Interrupt => 0,
            Self::Nmi => 2,
            Self::Exception => 3,
            Self::SoftwareInterrupt => 4,
            Self::Reserved(bits) => bits & 7,
        }
    }
}

//! EXITINFO1 and EXITINFO2 of AVIC_INCOMPLETE_IPI (401h) and AVIC_NOACCEL (402h).
//! [APM2 "AVIC IPI Delivery Not Completed"] [APM2 "AVIC Access to Un-accelerated vAPIC Register"]

use serde::{Deserialize, Serialize};

/// Why an IPI could not be completed: EXITINFO2\[63:32\].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum IncompleteIpiReason {
    /// 0: a trigger or message type that AVIC does not send, such as SIPI, or a shorthand so used.
    InvalidInterruptType,
    /// 1: IRR of every valid target is set, but at least one is not running: to be woken.
    TargetNotRunning,
    /// 2: a destination without a valid entry in a table.
    InvalidTarget,
    /// 3: an entry with an address that is not a legal one of memory.
    InvalidBackingPage,
    /// 4: below 16.
    InvalidVector,
    /// Secure AVIC only.
    NotAccelerated,
    /// A number that the manual does not list.
    Unknown(u32),
}

impl IncompleteIpiReason {
    /// Bits 63:32 of EXITINFO2.
    pub const fn from_bits(bits: u32) -> Self {
        match bits {
            0 => Self::InvalidInterruptType,
            1 => Self::TargetNotRunning,
            2 => Self::InvalidTarget,
            3 => Self::InvalidBackingPage,
            4 => Self::InvalidVector,
            5 => Self::NotAccelerated,
            other => Self::Unknown(other),
        }
    }

    /// Bits 63:32 of EXITINFO2.
    pub const fn into_bits(self) -> u32 {
        match self {
            Self::InvalidInterruptType => 0,
            Self::TargetNotRunning => 1,
            Self::InvalidTarget => 2,
            Self::InvalidBackingPage => 3,
            Self::InvalidVector => 4,
            Self::NotAccelerated => 5,
            Self::Unknown(bits) => bits,
        }
    }
}

/// AVIC_INCOMPLETE_IPI: a trap after the write of the ICR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IncompleteIpi {
    /// The low half of the ICR.
    pub command: u32,
    /// The high half of the ICR: destination in 31:24 (xAVIC) or 31:0 (x2AVIC).
    pub destination: u32,
    /// Software's first branch: what is left to be done.
    pub reason: IncompleteIpiReason,
    /// Into the physical table, or the logical one where its entry was at fault.
    pub index: u16,
}

impl IncompleteIpi {
    /// EXITINFO1 and EXITINFO2.
    pub const fn into_exit_info(self) -> [u64; 2] {
        [
            (self.destination as u64) << 32 | self.command as u64,
            (self.reason.into_bits() as u64) << 32 | (self.index & 0xFFF) as u64,
        ]
    }

    /// From EXITINFO1 and EXITINFO2.
    pub const fn from_exit_info(info: [u64; 2]) -> Self {
        Self {
            command: info[0] as u32,
            destination: (info[0] >> 32) as u32,
            reason: IncompleteIpiReason::from_bits((info[1] >> 32) as u32),
            index: (info[1] & 0xFFF) as u16,
        }
    }
}

/// AVIC_NOACCEL: a trap after, or a fault before, an access that AVIC does not complete. Which of
/// the two is not reported: software tells by the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NoAcceleration {
    /// Multiple of 16 into the APIC page; for x2AVIC 16 times the MSR's distance from 800h.
    pub offset: u16,
    /// Bit 32 of EXITINFO1.
    pub is_write: bool,
    /// The vector whose EOI is level-triggered, zero for all other accesses.
    pub vector: u8,
}

impl NoAcceleration {
    /// EXITINFO1 and EXITINFO2.
    pub const fn into_exit_info(self) -> [u64; 2] {
        [(self.is_write as u64) << 32 | (self.offset & 0xFF0) as u64, self.vector as u64]
    }

    /// From EXITINFO1 and EXITINFO2.
    pub const fn from_exit_info(info: [u64; 2]) -> Self {
        Self {
            offset: (info[0] & 0xFF0) as u16,
            is_write: info[0] >> 32 & 1 != 0,
            vector: info[1] as u8,
        }
    }
}

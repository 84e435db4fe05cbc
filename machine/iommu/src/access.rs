//! What devices ask for, and where it leads.

use arch::address::SystemPhysical;
use arch::apic::InterruptMessage;

/// What a device does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A read.
    Read,
    /// A write outside of the interrupt window.
    Write,
}

/// Where an access leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// Of the byte that was asked for.
    pub address: SystemPhysical,
    /// Bytes from there on that lie together; the rest is another translation.
    pub length: u64,
}

/// What becomes of a function's interrupt; `P` is a posting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remapped<P> {
    /// It goes on as the message says.
    Unchanged,
    /// It becomes this interrupt.
    Interrupt(InterruptMessage),
    /// It goes to a vCPU, in steps.
    Posting(P),
    /// It is dropped; what the IOMMU keeps of that says why, unless it is suppressed.
    Aborted,
}

impl<P> Remapped<P> {
    /// The same, with another posting.
    pub fn map_posting<Q>(self, other: impl FnOnce(P) -> Q) -> Remapped<Q> {
        match self {
            Self::Unchanged => Remapped::Unchanged,
            Self::Interrupt(message) => Remapped::Interrupt(message),
            Self::Posting(posting) => Remapped::Posting(other(posting)),
            Self::Aborted => Remapped::Aborted,
        }
    }
}

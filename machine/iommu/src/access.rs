//! What devices ask for, and where it leads.

use arch::address::SystemPhysical;

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

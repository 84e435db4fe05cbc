//! Entries of the event log, 16 bytes each. [IOMMU "Event Logging"]

use crate::identity::RequesterId;
use bitflags::bitflags;

/// Bytes of an event.
pub const SIZE: u64 = 16;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EventKind {
    /// An entry of the device table has reserved bits or values.
    IllegalDeviceTableEntry = 1,
    /// There is no page, or not with these rights; or an interrupt has no entry.
    PageFault = 2,
    /// The device table is out of reach.
    DeviceTableHardwareError = 3,
    /// A page table or an interrupt remapping table is out of reach.
    PageTableHardwareError = 4,
    /// A command has no meaning; no further ones are taken.
    IllegalCommand = 5,
    /// A command is out of reach; no further ones are taken.
    CommandHardwareError = 6,
    /// A device did not answer an invalidation.
    InvalidationTimeout = 7,
    /// A function asked for what it may not.
    InvalidDeviceRequest = 8,
}

bitflags! {
    /// Bits 27:16 of an event's second dword. [IOMMU "IO_PAGE_FAULT"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct EventFlags: u16 {
        /// GN: the address is a guest's.
        const GUEST = 1 << 0;
        /// NX
        const NO_EXECUTE = 1 << 1;
        /// US
        const USER = 1 << 2;
        /// I: an interrupt, and not an access.
        const INTERRUPT = 1 << 3;
        /// PR: the page or the entry was there, its rights did not suffice.
        const PRESENT = 1 << 4;
        /// RW: a write.
        const WRITE = 1 << 5;
        /// PE: the rights did not suffice.
        const PERMISSION = 1 << 6;
        /// RZ: reserved bits were set.
        const RESERVED = 1 << 7;
        /// TR: a request for a translation, and not an access.
        const TRANSLATION = 1 << 8;
    }
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// Whose access or interrupt it was; zero for commands.
    pub device: RequesterId,
    /// Of the function, if it has one.
    pub domain: u16,
    /// More about it.
    pub flags: EventFlags,
    /// What was accessed, by the device's address; the address of a command; a message's address.
    pub address: u64,
}

impl Event {
    /// Two quadwords, the lower first.
    pub const fn into_quadwords(self) -> [u64; 2] {
        let second =
            (self.kind as u64) << 28 | (self.flags.bits() as u64) << 16 | self.domain as u64;
        [second << 32 | self.device.0 as u64, self.address]
    }
}

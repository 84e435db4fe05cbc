//! Memory that processors and IOMMUs share: aligned, by system physical address.

use arch::address::SystemPhysical;
use bus::{Author, GuestMemory};

/// What interrupt virtualization does to memory. Each call is one access, of which another agent
/// sees all or nothing. Reads of what is not memory give all ones, writes to it are dropped.
pub trait SharedMemory {
    /// `at` is a multiple of 4.
    fn read_u32(&self, at: SystemPhysical) -> u32;
    /// `at` is a multiple of 8.
    fn read_u64(&self, at: SystemPhysical) -> u64;
    /// `at` is a multiple of 4.
    fn write_u32(&mut self, at: SystemPhysical, value: u32);
    /// `at` is a multiple of 8.
    fn write_u64(&mut self, at: SystemPhysical, value: u64);

    /// A locked OR; the value before.
    fn fetch_or_u32(&mut self, at: SystemPhysical, bits: u32) -> u32 {
        let before = self.read_u32(at);
        self.write_u32(at, before | bits);
        before
    }

    /// A locked AND; the value before.
    fn fetch_and_u32(&mut self, at: SystemPhysical, bits: u32) -> u32 {
        let before = self.read_u32(at);
        self.write_u32(at, before & bits);
        before
    }

    /// A locked OR; the value before.
    fn fetch_or_u64(&mut self, at: SystemPhysical, bits: u64) -> u64 {
        let before = self.read_u64(at);
        self.write_u64(at, before | bits);
        before
    }

    /// A locked AND; the value before.
    fn fetch_and_u64(&mut self, at: SystemPhysical, bits: u64) -> u64 {
        let before = self.read_u64(at);
        self.write_u64(at, before & bits);
        before
    }
}

impl SharedMemory for GuestMemory {
    fn read_u32(&self, at: SystemPhysical) -> u32 {
        GuestMemory::read_u32(self, at).unwrap_or(!0)
    }

    fn read_u64(&self, at: SystemPhysical) -> u64 {
        GuestMemory::read_u64(self, at).unwrap_or(!0)
    }

    fn write_u32(&mut self, at: SystemPhysical, value: u32) {
        if self.write_by(Author::Interrupts, at, &value.to_le_bytes()).is_err() {
            // Not memory: the bus drops the write.
        }
    }

    fn write_u64(&mut self, at: SystemPhysical, value: u64) {
        if self.write_by(Author::Interrupts, at, &value.to_le_bytes()).is_err() {
            // Not memory: the bus drops the write.
        }
    }
}

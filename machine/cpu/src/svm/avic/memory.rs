//! Memory as AVIC reaches it: aligned, by system physical address, one observable access a call.

use arch::address::SystemPhysical;
use bus::GuestMemory;

/// What AVIC does to memory. Reads of what is not memory give all ones, writes to it are dropped.
pub trait AvicMemory {
    fn read_u32(&self, at: SystemPhysical) -> u32;
    fn read_u64(&self, at: SystemPhysical) -> u64;
    fn write_u32(&mut self, at: SystemPhysical, value: u32);

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
}

impl AvicMemory for GuestMemory {
    fn read_u32(&self, at: SystemPhysical) -> u32 {
        GuestMemory::read_u32(self, at).unwrap_or(!0)
    }

    fn read_u64(&self, at: SystemPhysical) -> u64 {
        GuestMemory::read_u64(self, at).unwrap_or(!0)
    }

    fn write_u32(&mut self, at: SystemPhysical, value: u32) {
        if self.write(at, &value.to_le_bytes()).is_err() {
            // Not memory: the bus drops the write.
        }
    }
}

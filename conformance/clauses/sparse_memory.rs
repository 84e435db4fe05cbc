//! Memory in which only what was written exists, so that whole worlds can be compared and hashed.

use arch::address::SystemPhysical;
use std::collections::BTreeMap;
use virtual_apic::SharedMemory;

/// Sparse memory, dword by dword.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory(BTreeMap<u64, u32>);

impl SharedMemory for Memory {
    fn read_u32(&self, at: SystemPhysical) -> u32 {
        assert_eq!(at.0 % 4, 0, "aligned");
        self.0.get(&at.0).copied().unwrap_or(0)
    }

    fn read_u64(&self, at: SystemPhysical) -> u64 {
        assert_eq!(at.0 % 8, 0, "aligned");
        u64::from(self.read_u32(at)) | u64::from(self.read_u32(at.offset(4))) << 32
    }

    fn write_u32(&mut self, at: SystemPhysical, value: u32) {
        assert_eq!(at.0 % 4, 0, "aligned");
        if value == 0 {
            self.0.remove(&at.0);
        } else {
            self.0.insert(at.0, value);
        }
    }

    fn write_u64(&mut self, at: SystemPhysical, value: u64) {
        assert_eq!(at.0 % 8, 0, "aligned");
        self.write_u32(at, value as u32);
        self.write_u32(at.offset(4), (value >> 32) as u32);
    }
}

//! Memory that may end: tables of software's making can lie where there is none.

use arch::address::SystemPhysical;
use bus::GuestMemory;
use virtual_apic::SharedMemory;

/// Shared memory that knows where it is.
pub trait SystemMemory: SharedMemory {
    /// Whether all of `bytes` bytes from `at` on are memory.
    fn holds(&self, at: SystemPhysical, bytes: u64) -> bool;
}

impl SystemMemory for GuestMemory {
    fn holds(&self, at: SystemPhysical, bytes: u64) -> bool {
        self.slice(at, bytes as usize).is_ok()
    }
}

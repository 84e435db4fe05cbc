//! Memory that may end: tables of software's making can lie where there is none.

use arch::address::SystemPhysical;
use bus::GuestMemory;
use bus::walk::Tables;
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

/// A table lies where there is no memory.
pub(crate) struct OutOfReach;

/// Tables in memory that are only read.
pub(crate) struct InMemory<'a, M>(pub &'a mut M);

impl<M: SystemMemory> Tables for InMemory<'_, M> {
    type Place = ();
    type Error = OutOfReach;

    fn read(&mut self, at: u64, bytes: u64) -> Result<((), u64), OutOfReach> {
        let at = SystemPhysical(at);
        if self.0.holds(at, bytes) { Ok(((), self.0.read_u64(at))) } else { Err(OutOfReach) }
    }

    /// No bit is ever set in these tables.
    fn write(&mut self, (): (), _: u64, _: u64) {}
}

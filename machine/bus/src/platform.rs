//! The two directions of access: processor to device, device to memory.

use crate::{Author, GuestMemory, Initiator, Outbox};
use arch::address::{Device, SystemPhysical};
use arch::identity::{CpuIndex, RequesterId};
use arch::time::Picoseconds;

/// One access of a processor: who, and when on its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Whose access it is.
    pub cpu: CpuIndex,
    /// The time on its clock, which may be ahead of other processors'.
    pub at: Picoseconds,
}

/// All that a processor can reach and that is not RAM or its own APIC. Sizes are 1, 2, 4 or 8
/// bytes (ports: 1, 2 or 4); values are zero-extended. Unclaimed reads give all ones. Devices reach
/// `memory` in the course of an access.
pub trait Platform {
    /// A read of what is not RAM.
    fn read(
        &mut self,
        memory: &mut GuestMemory,
        visit: Visit,
        address: SystemPhysical,
        size: u8,
    ) -> u64;
    /// A write to what is not RAM; it is lost where nobody claims it.
    fn write(
        &mut self,
        memory: &mut GuestMemory,
        visit: Visit,
        address: SystemPhysical,
        size: u8,
        value: u64,
    );
    /// IN, which the processor has found allowed.
    fn port_in(&mut self, memory: &mut GuestMemory, visit: Visit, port: u16, size: u8) -> u32;
    /// OUT, which the processor has found allowed.
    fn port_out(&mut self, memory: &mut GuestMemory, visit: Visit, port: u16, size: u8, value: u32);
    /// The vector that the 8259 pair presents to an interrupt-acknowledge cycle.
    fn acknowledge_legacy(&mut self, visit: Visit) -> u8;
    /// An effect that the processor itself causes (IPI, EOI broadcast, doorbell, shutdown).
    fn effect(&mut self, visit: Visit, effect: crate::Effect);
    /// The processor tells what it did, for traces and the run's hash.
    fn record(&mut self, visit: Visit, happening: crate::Happening);
}

/// A device's access to memory was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaFault(pub Device);

/// Memory as a device sees it, through the IOMMU where there is one.
pub trait DirectMemoryAccess {
    /// Fills `into` from the address on.
    fn read(
        &mut self,
        requester: RequesterId,
        address: Device,
        into: &mut [u8],
    ) -> Result<(), DmaFault>;
    /// Writes all of `from` from the address on.
    fn write(
        &mut self,
        requester: RequesterId,
        address: Device,
        from: &[u8],
    ) -> Result<(), DmaFault>;
}

impl DirectMemoryAccess for GuestMemory {
    fn read(&mut self, _: RequesterId, address: Device, into: &mut [u8]) -> Result<(), DmaFault> {
        GuestMemory::read(self, SystemPhysical(address.0), into).map_err(|_| DmaFault(address))
    }

    fn write(
        &mut self,
        requester: RequesterId,
        address: Device,
        from: &[u8],
    ) -> Result<(), DmaFault> {
        self.write_by(Author::Device(requester), SystemPhysical(address.0), from)
            .map_err(|_| DmaFault(address))
    }
}

/// What a device is handed for the time of one access or one timer event.
pub struct Context<'a> {
    /// Virtual time. Never goes back between two calls to the same device.
    pub now: Picoseconds,
    /// Where the device's own accesses go.
    pub memory: &'a mut dyn DirectMemoryAccess,
    /// Takes what the access causes elsewhere.
    pub outbox: &'a mut Outbox,
}

impl Context<'_> {
    /// Records an effect of the device `initiator` at the present time.
    pub fn effect(&mut self, initiator: Initiator, effect: crate::Effect) {
        self.outbox.push(initiator, self.now, effect);
    }
}

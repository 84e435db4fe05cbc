//! The IOMMU's place between functions and memory. [IOMMU "Architecture"]
//!
//! DEVIATION(IOMMU "Device Table"): what sits on ports, the firmware configuration device among it,
//! reaches memory untranslated, as where it is the hypervisor's and not a function's.

use arch::address::{Device, SystemPhysical};
use arch::identity::RequesterId;
use bus::{Author, DirectMemoryAccess, DmaFault, GuestMemory};
use device::map;
use iommu::{Access, Iommu, Signal};

/// Memory as functions see it.
pub struct Translated<'a> {
    pub iommu: &'a mut Iommu,
    pub memory: &'a mut GuestMemory,
    /// Takes what the IOMMU causes elsewhere.
    pub signals: &'a mut Vec<Signal>,
}

impl Translated<'_> {
    /// Calls `each` with the place of every piece that lies together, and its range within the
    /// access. A refused piece ends the access; those before it are done.
    fn pieces(
        &mut self,
        requester: RequesterId,
        address: Device,
        length: usize,
        access: Access,
        mut each: impl FnMut(&mut GuestMemory, SystemPhysical, std::ops::Range<usize>) -> bool,
    ) -> Result<(), DmaFault> {
        let mut done = 0;
        // Bounded: each turn does at least a byte.
        while done < length {
            let at = address.offset(done as u64);
            let (place, together) = if requester == map::ISA_BRIDGE.requester() {
                (SystemPhysical(at.0), u64::MAX)
            } else {
                let outcome = self.iommu.translate(self.memory, requester, at, access);
                self.signals.extend(outcome.signals);
                let found = outcome.result?;
                (found.address, found.length.max(1))
            };
            let end = length.min(done.saturating_add(together.min(length as u64) as usize));
            if !each(self.memory, place, done..end) {
                return Err(DmaFault(at));
            }
            done = end;
        }
        Ok(())
    }
}

impl DirectMemoryAccess for Translated<'_> {
    fn read(
        &mut self,
        requester: RequesterId,
        address: Device,
        into: &mut [u8],
    ) -> Result<(), DmaFault> {
        let length = into.len();
        self.pieces(requester, address, length, Access::Read, |memory, place, range| {
            GuestMemory::read(memory, place, &mut into[range]).is_ok()
        })
    }

    fn write(
        &mut self,
        requester: RequesterId,
        address: Device,
        from: &[u8],
    ) -> Result<(), DmaFault> {
        self.pieces(requester, address, from.len(), Access::Write, |memory, place, range| {
            memory.write_by(Author::Device(requester), place, &from[range]).is_ok()
        })
    }
}

//! A function of the host on the guest's PCI bus: its header, its MSI-X table and its PCI Express
//! capability are this process's, its other registers are its own, mapped into the guest.
//! [PCI "Configuration Space"] [LINUX "VFIO - Virtual Function I/O"]
//!
//! After each access that may have changed them, the guest's registers are looked at as a whole,
//! and the host's function is made to agree: where its regions are, whether it may reach memory,
//! which vectors raise what.
//!
//! Left out: expansion ROMs, regions among the ports, INTx and MSI, capabilities but MSI-X and PCI
//! Express, whose settings (payload and read sizes) do not reach the function.

mod region;
mod space;

use self::region::GivenRegion;
use crate::error::BenchError;
use crate::routes::{Routes, Vector};
use crate::vfio::Function;
use arch::pci::{Command, FunctionAddress, MsixPlace, msix};
use device::Bus;
use device::pci::{Configuration, Express, Msix, Passive};
use kvm_ioctls::VmFd;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use vmm_sys_util::eventfd::EventFd;

/// The function, and what of it the guest has made use of.
pub(crate) struct Given {
    /// On the guest's bus.
    place: FunctionAddress,
    express: Option<Express>,
    table: MsixPlace,
    pending: MsixPlace,
    vectors: Vec<Vector>,
    /// By base address register.
    regions: Vec<Option<GivenRegion>>,
    /// Whether the vectors raise their events.
    is_wired: bool,
    is_bus_master: bool,
    /// Behind what it has given out.
    function: Function,
}

impl Given {
    /// Puts the function on the guest's bus at `place`, with memory slots of KVM's from `slot` on.
    pub(crate) fn new(
        function: Function,
        pci: &mut Bus,
        place: FunctionAddress,
        routes: &Arc<Mutex<Routes>>,
        slot: &mut u32,
    ) -> Result<Self, BenchError> {
        let space = space::of(&function, &mut pci.room)?;
        let mut regions = Vec::new();
        for (bar, region) in space.regions.into_iter().enumerate() {
            let own = [
                trapped(space.table, bar, table_bytes(space.vectors)),
                trapped(space.pending, bar, pending_bytes(space.vectors)),
            ];
            let own: Vec<Range<u64>> = own.into_iter().flatten().collect();
            regions.push(region.map(|region| GivenRegion::new(&function, region, &own, slot)));
        }
        let vectors = (0..space.vectors).map(|_| Vector::new(routes));
        let vectors: Result<Vec<Vector>, _> = vectors.collect();
        let vectors = vectors.map_err(|error| function.refused("its events", error))?;
        let mut own = device::pci::Function::new(place, space.configuration, Passive.into());
        own.msix = Some(space.msix);
        if !pci.add(own) {
            let error = std::io::Error::other(format!("its bus has no place at {place}"));
            return Err(function.refused("a virtual machine", error));
        }
        Ok(Self {
            place,
            express: space.express,
            table: space.table,
            pending: space.pending,
            vectors,
            regions,
            is_wired: false,
            is_bus_master: false,
            function,
        })
    }

    /// The region that decodes an address of the guest's, and the offset in it.
    pub(crate) fn decode(&self, pci: &Bus, address: u64) -> Option<(usize, u64)> {
        pci.function(self.place)?.configuration.decode(address, true)
    }

    /// Reads what is not mapped. What the function refuses reads as all ones.
    pub(crate) fn read(&self, pci: &Bus, bar: usize, offset: u64, into: &mut [u8]) {
        into.fill(0xFF);
        if let Some(from_table) = within(self.table, bar, offset, table_bytes(self.count())) {
            if let Some(table) = pci.function(self.place).and_then(|own| own.msix.as_ref()) {
                let value = table.read(from_table, into.len() as u8).to_le_bytes();
                into.copy_from_slice(&value[..into.len()]);
            }
        } else if let Some(at) = within(self.pending, bar, offset, pending_bytes(self.count())) {
            for (byte, at) in into.iter_mut().zip(at..) {
                *byte = self.pending_byte(at);
            }
        } else if let Some(Some(region)) = self.regions.get(bar) {
            // A function that does not answer reads as all ones, on a bus as here.
            let _ = self.function.read(&region.region, offset, into);
        }
    }

    /// Writes what is not mapped.
    pub(crate) fn write(&mut self, pci: &mut Bus, bar: usize, offset: u64, from: &[u8]) {
        if let Some(from_table) = within(self.table, bar, offset, table_bytes(self.count())) {
            let table = pci.function_mut(self.place).and_then(|own| own.msix.as_mut());
            let mut value = [0; 8];
            value[..from.len()].copy_from_slice(from);
            if let Some(table) = table {
                table.write(from_table, from.len() as u8, u64::from_le_bytes(value));
            }
        } else if within(self.pending, bar, offset, pending_bytes(self.count())).is_none()
            && let Some(Some(region)) = self.regions.get(bar)
        {
            // A function that does not answer takes nothing.
            let _ = self.function.write(&region.region, offset, from);
        }
    }

    /// Makes the function as the guest's registers say. Fails as the host refuses it.
    pub(crate) fn settle(&mut self, pci: &mut Bus, vm: &VmFd) -> Result<(), BenchError> {
        let Some(own) = pci.function_mut(self.place) else { return Ok(()) };
        let (configuration, table) = (&mut own.configuration, own.msix.as_mut());
        let Some(table) = table else { return Ok(()) };
        if self.express.is_some_and(|express| express.take_reset(configuration)) {
            configuration.reset();
            table.reset();
            self.settle_vectors(configuration, table)?;
            self.function.reset()?;
            self.is_bus_master = false;
        }
        for (bar, region) in self.regions.iter_mut().enumerate() {
            if let Some(region) = region {
                region.settle(configuration.mapped(bar), vm)?;
            }
        }
        let is_bus_master = configuration.command().contains(Command::BUS_MASTER);
        if is_bus_master != self.is_bus_master {
            self.function.set_bus_master(is_bus_master)?;
            self.is_bus_master = is_bus_master;
        }
        self.settle_vectors(configuration, table)
    }

    fn settle_vectors(
        &mut self,
        configuration: &Configuration,
        table: &Msix,
    ) -> Result<(), BenchError> {
        let is_enabled = table.is_enabled(configuration);
        if is_enabled && !self.is_wired {
            self.function.interrupt_by(self.vectors.iter().map(|vector| &vector.event))?;
        }
        for (vector, number) in self.vectors.iter_mut().zip(0..) {
            match table.message(configuration, number) {
                Some(message) => vector.join(message)?,
                None => vector.part()?,
            }
        }
        if !is_enabled && self.is_wired {
            self.function.interrupt_by(std::iter::empty::<&EventFd>())?;
        }
        self.is_wired = is_enabled;
        Ok(())
    }

    fn count(&self) -> u16 {
        self.vectors.len() as u16
    }

    fn pending_byte(&self, at: u64) -> u8 {
        let first = (at as usize).saturating_mul(8);
        let own = self.vectors.iter().skip(first).take(8).enumerate();
        own.fold(0, |byte, (bit, vector)| byte | u8::from(vector.is_pending()) << bit)
    }
}

const fn table_bytes(vectors: u16) -> u64 {
    vectors as u64 * msix::ENTRY
}

/// A bit each, in units of eight bytes.
const fn pending_bytes(vectors: u16) -> u64 {
    (vectors as u64).div_ceil(64) * 8
}

/// The offset from a structure's beginning, if an access is to it.
fn within(place: MsixPlace, bar: usize, offset: u64, bytes: u64) -> Option<u64> {
    let from = offset.checked_sub(place.offset().into())?;
    (usize::from(place.region()) == bar && from < bytes).then_some(from)
}

/// What of a region a structure takes.
fn trapped(place: MsixPlace, bar: usize, bytes: u64) -> Option<Range<u64>> {
    let start = u64::from(place.offset());
    (usize::from(place.region()) == bar).then_some(start..start + bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_is_to_a_structure_or_to_what_lies_around_it() {
        let place = MsixPlace::new().with_region(3).with_eights(0x1000 >> 3);
        let three = table_bytes(3);
        assert_eq!(within(place, 3, 0x1000, three), Some(0));
        assert_eq!(within(place, 3, 0x102C, three), Some(0x2C));
        for (bar, offset) in [(3, 0xFFF), (3, 0x1030), (2, 0x1000)] {
            assert_eq!(within(place, bar, offset, three), None, "{bar} {offset:#x}");
        }
        assert_eq!(trapped(place, 3, three), Some(0x1000..0x1030));
        assert_eq!((pending_bytes(1), pending_bytes(64), pending_bytes(65)), (8, 8, 16));
    }
}

//! A function's way out: memory, messages and its pin, lent to the device for one access.

use super::{Configuration, Msi, Msix};
use arch::address::Device as DeviceAddress;
use arch::identity::RequesterId;
use arch::pci::Command;
use arch::time::Picoseconds;
use bus::{Context, DmaFault, Effect, Initiator};

/// A function's way to the rest of the machine, for the time of one access.
pub struct Attachment<'a, 'b> {
    pub(super) cx: &'a mut Context<'b>,
    pub(super) requester: RequesterId,
    pub(super) configuration: &'a mut Configuration,
    pub(super) msi: Option<Msi>,
    pub(super) msix: Option<&'a mut Msix>,
    pub(super) wants_pin: &'a mut bool,
}

impl Attachment<'_, '_> {
    /// The moment of the access.
    pub fn now(&self) -> Picoseconds {
        self.cx.now
    }

    /// Accesses of a function that is not a bus master do not leave it.
    pub fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), DmaFault> {
        let address = DeviceAddress(address);
        if !self.is_bus_master() {
            return Err(DmaFault(address));
        }
        self.cx.memory.read(self.requester, address, into)
    }

    /// Writes to memory; accesses of a function that is not a bus master do not leave it.
    pub fn write(&mut self, address: u64, from: &[u8]) -> Result<(), DmaFault> {
        let address = DeviceAddress(address);
        if !self.is_bus_master() {
            return Err(DmaFault(address));
        }
        self.cx.memory.write(self.requester, address, from)
    }

    /// Whether the driver has enabled MSI-X, so that neither MSI nor the pin may be used.
    pub fn is_msix_enabled(&self) -> bool {
        self.msix.as_ref().is_some_and(|msix| msix.is_enabled(self.configuration))
    }

    /// Entries of the MSI-X table; zero without one.
    pub fn msix_vectors(&self) -> u16 {
        self.msix.as_ref().map_or(0, |msix| msix.vectors())
    }

    /// Sends an MSI-X message; a mask may hold it back.
    pub fn signal_msix(&mut self, vector: u16) {
        let Some(msix) = self.msix.as_mut() else { return };
        if let Some(message) = msix.signal(self.configuration, vector) {
            self.send(message);
        }
    }

    /// Sends an MSI message; false if MSI is off.
    pub fn signal_msi(&mut self, vector: u8) -> bool {
        let Some(msi) = self.msi.filter(|msi| msi.is_enabled(self.configuration)) else {
            return false;
        };
        if let Some(message) = msi.signal(self.configuration, vector) {
            self.send(message);
        }
        true
    }

    /// Tells the board that the guest wrote to a port of a console.
    pub fn tell_output(&mut self, port: u8) {
        self.cx.effect(Initiator::Device(self.requester), Effect::ChannelOutput { port });
    }

    /// The level that the device wants on its INTx pin.
    pub fn set_pin(&mut self, wants_pin: bool) {
        *self.wants_pin = wants_pin;
    }

    /// Whether the command register lets the function access memory and send messages.
    pub fn is_bus_master(&self) -> bool {
        self.configuration.command().contains(Command::BUS_MASTER)
    }

    pub(super) fn send_pending(&mut self) {
        if !self.is_bus_master() {
            return;
        }
        // Each turn clears a pending bit, so there are at most as many as vectors.
        while let Some(message) =
            self.msix.as_mut().and_then(|msix| msix.take_pending(self.configuration))
        {
            self.send(message);
        }
        while let Some(message) = self.msi.and_then(|msi| msi.take_pending(self.configuration)) {
            self.send(message);
        }
    }

    /// A message is a write to memory, so it needs bus mastering. [PCI "Bus Master Enable"]
    fn send(&mut self, message: arch::msi::MessageSignalled) {
        if self.is_bus_master() {
            self.cx.effect(Initiator::Device(self.requester), Effect::MessageSignalled(message));
        }
    }
}

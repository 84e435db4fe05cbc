//! A function on the bus: its configuration space, its interrupts and what is behind its regions.

use super::pulse::Pulse;
use super::test_function::TestFunction;
use super::{Configuration, Express, Msi, Msix};
use crate::intel_82599::VirtualFunction;
use crate::nvme::Controller;
use crate::virtio::Virtio;
use arch::address::Device as DeviceAddress;
use arch::identity::RequesterId;
use arch::pci::{Command, FunctionAddress, Status};
use arch::time::Picoseconds;
use bus::{Context, DmaFault, Effect, Initiator};
use serde::{Deserialize, Serialize};

/// What is behind the regions of a function.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Device {
    /// Configuration space only: bridges, and functions whose registers the board keeps elsewhere.
    Passive,
    /// The function for measuring accesses.
    Test(TestFunction),
    /// The function for measuring interrupts.
    Pulse(Pulse),
    /// A virtio device behind its PCI transport.
    Virtio(Box<Virtio>),
    /// A virtual function of a network controller.
    Intel82599(Box<VirtualFunction>),
    /// An NVM Express controller.
    Nvme(Box<Controller>),
}

/// A PCI function with the device behind its regions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Function {
    /// Its place on the bus, from which its requester ID follows.
    pub address: FunctionAddress,
    /// Its configuration space.
    pub configuration: Configuration,
    /// Where its MSI capability is, if it has one.
    pub msi: Option<Msi>,
    /// Its MSI-X capability and table, if it has them.
    pub msix: Option<Msix>,
    /// The region that holds the MSI-X table.
    pub msix_bar: Option<usize>,
    /// Where its PCI Express capability is, if it has one.
    pub express: Option<Express>,
    /// What answers accesses to its regions.
    pub device: Device,
    /// The device wants its INTx pin asserted; command register and MSI may forbid it.
    pub(super) wants_pin: bool,
}

impl Function {
    /// A function without message-signalled interrupts; its fields take them.
    pub fn new(address: FunctionAddress, configuration: Configuration, device: Device) -> Self {
        Self {
            address,
            configuration,
            msi: None,
            msix: None,
            msix_bar: None,
            express: None,
            device,
            wants_pin: false,
        }
    }

    pub(super) fn read(&mut self, cx: &mut Context, bar: usize, offset: u64, size: u8) -> u32 {
        if let (Some(msix), true) = (&self.msix, self.msix_bar == Some(bar)) {
            return msix.read(offset, size) as u32;
        }
        let (device, mut attachment) = self.split(cx);
        match device {
            Device::Passive => u32::MAX,
            Device::Test(device) => device.read(bar, offset, size),
            Device::Pulse(device) => device.read(attachment.now(), offset),
            Device::Virtio(device) => device.read(&mut attachment, offset, size),
            Device::Intel82599(device) => device.read(&mut attachment, offset),
            Device::Nvme(device) => device.read(offset, size),
        }
    }

    pub(super) fn write(
        &mut self,
        cx: &mut Context,
        bar: usize,
        offset: u64,
        size: u8,
        value: u32,
    ) {
        if let (Some(msix), true) = (&mut self.msix, self.msix_bar == Some(bar)) {
            msix.write(offset, size, value.into());
            self.send_pending(cx);
            return;
        }
        let (device, mut attachment) = self.split(cx);
        match device {
            Device::Passive => {}
            Device::Test(device) => device.write(bar, offset, size, value),
            Device::Pulse(device) => device.write(attachment.now(), offset, value),
            Device::Virtio(device) => device.write(&mut attachment, offset, size, value),
            Device::Intel82599(device) => device.write(&mut attachment, offset, value),
            Device::Nvme(device) => device.write(&mut attachment, offset, size, value),
        }
    }

    pub(super) fn write_configuration(
        &mut self,
        cx: &mut Context,
        offset: u16,
        size: u8,
        value: u32,
    ) {
        self.configuration.write(offset, size, value);
        let configuration = &mut self.configuration;
        if self.express.is_some_and(|express| express.take_reset(configuration)) {
            self.reset();
        }
        self.send_pending(cx);
    }

    /// [PCIE "Function Level Reset"]
    fn reset(&mut self) {
        self.configuration.reset();
        if let Some(msix) = &mut self.msix {
            msix.reset();
        }
        match &mut self.device {
            Device::Intel82599(device) => device.reset(),
            Device::Nvme(device) => device.reset(),
            Device::Passive | Device::Test(_) | Device::Pulse(_) | Device::Virtio(_) => {}
        }
    }

    /// When its device has something to do without being asked.
    pub fn next_deadline(&self) -> Option<Picoseconds> {
        match &self.device {
            Device::Passive | Device::Test(_) => None,
            Device::Pulse(device) => device.next_deadline(),
            Device::Virtio(device) => device.next_deadline(),
            Device::Intel82599(device) => device.next_deadline(),
            Device::Nvme(device) => device.next_deadline(),
        }
    }

    pub(super) fn advance(&mut self, cx: &mut Context) {
        let (device, mut attachment) = self.split(cx);
        match device {
            Device::Passive | Device::Test(_) => {}
            Device::Pulse(device) => device.advance(&mut attachment),
            Device::Virtio(device) => device.advance(&mut attachment),
            Device::Intel82599(device) => device.advance(&mut attachment),
            Device::Nvme(device) => device.advance(&mut attachment),
        }
    }

    /// Frames that have left over a wire for another function, and where that is.
    pub(super) fn take_departed(&mut self) -> Option<(FunctionAddress, Vec<Vec<u8>>)> {
        match &mut self.device {
            Device::Intel82599(device) => device.take_departed(),
            _ => None,
        }
    }

    /// A frame arrives over a wire from another function.
    pub(super) fn receive(&mut self, cx: &mut Context, frame: &[u8]) {
        if let (Device::Intel82599(device), mut attachment) = self.split(cx) {
            device.receive(&mut attachment, frame);
        }
    }

    /// The virtio device behind the function and its way to the machine.
    pub fn virtio<'a, 'b>(
        &'a mut self,
        cx: &'a mut Context<'b>,
    ) -> Option<(&'a mut Virtio, Attachment<'a, 'b>)> {
        match self.split(cx) {
            (Device::Virtio(device), attachment) => Some((device, attachment)),
            _ => None,
        }
    }

    pub(super) fn signal_msi(&mut self, cx: &mut Context, vector: u8) -> bool {
        let (_, mut attachment) = self.split(cx);
        attachment.signal_msi(vector)
    }

    /// The level of the INTx pin; the status register shows what the device wants.
    pub(super) fn pin(&mut self) -> bool {
        self.configuration.set_status(Status::INTERRUPT, self.wants_pin);
        let is_allowed = !self.configuration.command().contains(Command::INTERRUPT_DISABLE);
        self.wants_pin && is_allowed && !self.has_messages_enabled()
    }

    fn has_messages_enabled(&self) -> bool {
        self.msi.is_some_and(|msi| msi.is_enabled(&self.configuration))
            || self.msix.as_ref().is_some_and(|msix| msix.is_enabled(&self.configuration))
    }

    fn split<'a, 'b>(
        &'a mut self,
        cx: &'a mut Context<'b>,
    ) -> (&'a mut Device, Attachment<'a, 'b>) {
        let attachment = Attachment {
            cx,
            requester: self.address.requester(),
            configuration: &mut self.configuration,
            msi: self.msi,
            msix: self.msix.as_mut(),
            wants_pin: &mut self.wants_pin,
        };
        (&mut self.device, attachment)
    }

    /// Sends what was held back by a mask (or by bus mastering being off).
    fn send_pending(&mut self, cx: &mut Context) {
        let (_, mut attachment) = self.split(cx);
        attachment.send_pending();
    }
}

/// A function's way to the rest of the machine, for the time of one access.
pub struct Attachment<'a, 'b> {
    cx: &'a mut Context<'b>,
    requester: RequesterId,
    configuration: &'a mut Configuration,
    msi: Option<Msi>,
    msix: Option<&'a mut Msix>,
    wants_pin: &'a mut bool,
}

impl Attachment<'_, '_> {
    /// The moment of the access.
    pub fn now(&self) -> Picoseconds {
        self.cx.now
    }

    /// Accesses of a function that is no bus master do not leave it.
    pub fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), DmaFault> {
        let address = DeviceAddress(address);
        if !self.is_bus_master() {
            return Err(DmaFault(address));
        }
        self.cx.memory.read(self.requester, address, into)
    }

    /// Writes to memory; accesses of a function that is no bus master do not leave it.
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

    fn send_pending(&mut self) {
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

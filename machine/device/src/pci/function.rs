//! A function on the bus: its configuration space, its interrupts and what is behind its regions.

use super::{Attachment, Configuration, Express, Msi, Msix};
use crate::storage::Disk;
use arch::pci::{Command, FunctionAddress, Status};
use arch::time::Picoseconds;
use bus::Context;
use serde::{Deserialize, Serialize};

/// What is behind the regions of a function. The bus decodes, resets and delivers; all else is the
/// device's.
pub trait PciDevice {
    /// Reads 1, 2 or 4 bytes of a region, but for the one that holds the MSI-X table.
    fn read(&mut self, port: &mut Attachment, bar: usize, offset: u64, size: u8) -> u32;

    /// Writes 1, 2 or 4 bytes of a region, but for the one that holds the MSI-X table.
    fn write(&mut self, port: &mut Attachment, bar: usize, offset: u64, size: u8, value: u32);

    /// Takes the device to its state after power-on: a function-level reset.
    fn reset(&mut self) {}

    /// When it has something to do without being asked.
    fn next_deadline(&self) -> Option<Picoseconds> {
        None
    }

    /// Does what is due.
    fn advance(&mut self, _port: &mut Attachment) {}

    /// Frames that have left over a wire for another function, and where that is.
    fn take_departed(&mut self) -> Option<(FunctionAddress, Vec<Vec<u8>>)> {
        None
    }

    /// A frame arrives over a wire from another function.
    fn receive(&mut self, _port: &mut Attachment, _frame: &[u8]) {}

    /// The disk behind it, if it has one: it is given its storage when a machine is restored.
    fn disk_mut(&mut self) -> Option<&mut Disk> {
        None
    }

    /// Whether a guest has things open by it that are not part of its state.
    fn has_session_elsewhere(&self) -> bool {
        false
    }
}

/// Configuration space only: bridges, and functions whose registers are kept elsewhere.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Passive;

impl PciDevice for Passive {
    fn read(&mut self, _: &mut Attachment, _: usize, _: u64, _: u8) -> u32 {
        u32::MAX
    }

    fn write(&mut self, _: &mut Attachment, _: usize, _: u64, _: u8, _: u32) {}
}

/// A PCI function with the device behind its regions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Function<D> {
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
    pub device: D,
    /// The device wants its INTx pin asserted; command register and MSI may forbid it.
    pub(super) wants_pin: bool,
}

impl<D> Function<D> {
    /// A function without message-signalled interrupts; its fields take them.
    pub fn new(address: FunctionAddress, configuration: Configuration, device: D) -> Self {
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

    /// With the MSI capability that was added to its configuration space.
    pub fn with_msi(self, msi: Option<Msi>) -> Self {
        Self { msi, ..self }
    }

    /// With the MSI-X capability that was added, and the region that holds its table.
    pub fn with_msix(self, msix: Option<Msix>, bar: usize) -> Self {
        Self { msix, msix_bar: Some(bar), ..self }
    }

    /// With the PCI Express capability that was added to its configuration space.
    pub fn with_express(self, express: Option<Express>) -> Self {
        Self { express, ..self }
    }

    /// The same function, with its device as one of several kinds.
    pub fn into_kind<K: From<D>>(self) -> Function<K> {
        Function {
            address: self.address,
            configuration: self.configuration,
            msi: self.msi,
            msix: self.msix,
            msix_bar: self.msix_bar,
            express: self.express,
            device: self.device.into(),
            wants_pin: self.wants_pin,
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

    /// The device, and its way to the machine.
    pub fn split<'a, 'b>(&'a mut self, cx: &'a mut Context<'b>) -> (&'a mut D, Attachment<'a, 'b>) {
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

impl<D: PciDevice> Function<D> {
    pub(super) fn read(&mut self, cx: &mut Context, bar: usize, offset: u64, size: u8) -> u32 {
        if let (Some(msix), true) = (&self.msix, self.msix_bar == Some(bar)) {
            return msix.read(offset, size) as u32;
        }
        let (device, mut attachment) = self.split(cx);
        device.read(&mut attachment, bar, offset, size)
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
        device.write(&mut attachment, bar, offset, size, value);
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
        self.device.reset();
    }

    pub(super) fn advance(&mut self, cx: &mut Context) {
        let (device, mut attachment) = self.split(cx);
        device.advance(&mut attachment);
    }

    pub(super) fn receive(&mut self, cx: &mut Context, frame: &[u8]) {
        let (device, mut attachment) = self.split(cx);
        device.receive(&mut attachment, frame);
    }
}

//! The board's side of devices: disks to attach, console bytes to move, counters to read.
//! Devices of a kind are numbered in the order of the configuration.

use super::Chipset;
use crate::intel_82599::VirtualFunction;
use crate::pci::{Attachment, PciDevice};
use crate::registry::{self, Device, Request};
use crate::storage::{Disk, StorageError};
use crate::virtio::console::Console;
use crate::virtio::network::Network;
use crate::virtio::{Model, Virtio};
use arch::identity::RequesterId;
use arch::pci::FunctionAddress;
use bus::Context;

impl Chipset {
    /// After a reset: disks hold what they held.
    pub fn go_on_after(&mut self, before: &mut Self) {
        for (disk, before) in self.disks_mut().zip(before.disks_mut()) {
            std::mem::swap(disk, before);
        }
    }

    /// The disks behind devices of all kinds, in the order on the bus.
    pub fn disks_mut(&mut self) -> impl Iterator<Item = &mut Disk> {
        self.pci.functions_mut().iter_mut().filter_map(|function| function.device.disk_mut())
    }

    /// Gives the disks of a restored chipset the storages of those that `functions` bring along.
    pub fn attach_disks(&mut self, functions: &[Request]) -> Result<(), StorageError> {
        registry::attach_disks(&mut self.pci, functions)
    }

    /// Gives the shared folders of a restored chipset the servers of those that `functions` bring
    /// along.
    pub fn attach_folders(&mut self, functions: &[Request]) {
        let asked = registry::in_order(functions).into_iter().filter_map(|request| match request {
            Request::Virtio(Model::NineP(asked)) => Some(asked),
            _ => None,
        });
        let restored = self.models_mut().filter_map(|model| match model {
            Model::NineP(restored) => Some(restored),
            _ => None,
        });
        restored.zip(asked).for_each(|(restored, asked)| restored.attach(asked));
    }

    /// The virtio consoles.
    pub fn consoles_mut(&mut self) -> impl Iterator<Item = &mut Console> {
        self.models_mut().filter_map(|model| match model {
            Model::Console(console) => Some(console),
            _ => None,
        })
    }

    /// The virtio network devices, each with the packet source at its other end.
    pub fn networks_mut(&mut self) -> impl Iterator<Item = &mut Network> {
        self.models_mut().filter_map(|model| match model {
            Model::Network(network) => Some(network),
            _ => None,
        })
    }

    /// The virtual functions of network controllers, each with its place.
    pub fn virtual_functions(&self) -> impl Iterator<Item = (FunctionAddress, &VirtualFunction)> {
        self.pci.functions().iter().filter_map(|function| match &function.device {
            Device::Intel82599(device) => Some((function.address, &**device)),
            _ => None,
        })
    }

    /// What the guest wrote to a port of a console since the last call.
    pub fn take_console_output(&mut self, console: usize, port: usize) -> Vec<u8> {
        let console = self.consoles_mut().nth(console);
        console.map_or_else(Vec::new, |console| console.take_output(port))
    }

    /// The number of the console device that is this initiator.
    pub fn console_of(&self, requester: RequesterId) -> Option<usize> {
        let consoles = self.pci.functions().iter().filter(|f| is_console(&f.device));
        consoles.map(|function| function.address.requester()).position(|r| r == requester)
    }

    /// Input for a port of a console; gives how many bytes it took.
    pub fn feed_console(
        &mut self,
        cx: &mut Context,
        console: usize,
        port: usize,
        bytes: &[u8],
    ) -> usize {
        let give = |device: &mut Virtio, attachment: &mut Attachment| {
            device.receive_input(attachment, port, bytes)
        };
        self.with_console(cx, console, give).unwrap_or(0)
    }

    /// The end of a port's input; false as long as the guest has not read what came before.
    pub fn end_console(&mut self, cx: &mut Context, console: usize, port: usize) -> bool {
        let end =
            |device: &mut Virtio, attachment: &mut Attachment| device.end_input(attachment, port);
        self.with_console(cx, console, end).unwrap_or(false)
    }

    fn with_console<T>(
        &mut self,
        cx: &mut Context,
        console: usize,
        act: impl FnOnce(&mut Virtio, &mut Attachment) -> T,
    ) -> Option<T> {
        let consoles = self.pci.functions().iter().enumerate();
        let (index, _) = consoles.filter(|(_, f)| is_console(&f.device)).nth(console)?;
        let done = self.pci.with_function(cx, index, |function, cx| {
            let (device, mut attachment) = function.split(cx);
            let Device::Virtio(device) = device else { return None };
            Some(act(device, &mut attachment))
        });
        done.flatten()
    }

    fn models_mut(&mut self) -> impl Iterator<Item = &mut Model> {
        self.pci.functions_mut().iter_mut().filter_map(|function| match &mut function.device {
            Device::Virtio(device) => Some(&mut device.model),
            _ => None,
        })
    }
}

fn is_console(device: &Device) -> bool {
    matches!(device, Device::Virtio(device) if matches!(device.model, Model::Console(_)))
}

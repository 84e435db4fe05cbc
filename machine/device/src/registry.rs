//! Every device that can be on the PCI bus, a row each. Nothing else lists them: the bus, the
//! board, snapshots and the command line go through here.

use crate::pci::{Attachment, Function, PciBus, PciDevice, Room};
use crate::request::{Images, Name, Options, PciRequest, Places};
use crate::storage::{Disk, StorageError};
use crate::{intel_82599, ioat, nvme, onboard, pulse, test_function, virtio};
use arch::pci::FunctionAddress;
use arch::time::Picoseconds;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Makes the enumerations of devices and of requests from the rows, and takes calls to the one that
/// is there.
macro_rules! registry {
    ($($(#[$document:meta])* $kind:ident: $request:ty,)*) => {
        /// What is behind the regions of a function.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        pub enum Device {
            $($(#[$document])* $kind(Box<<$request as PciRequest>::Device>),)*
        }

        /// A request for a device, of whichever kind.
        #[derive(Clone, Debug)]
        pub enum Request {
            $($(#[$document])* $kind($request),)*
        }

        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        enum Row { $($kind,)* }

        $(impl From<<$request as PciRequest>::Device> for Device {
            fn from(device: <$request as PciRequest>::Device) -> Self {
                Self::$kind(Box::new(device))
            }
        }

        impl From<$request> for Request {
            fn from(request: $request) -> Self {
                Self::$kind(request)
            }
        })*

        impl PciDevice for Device {
            fn read(&mut self, port: &mut Attachment, bar: usize, offset: u64, size: u8) -> u32 {
                match self { $(Self::$kind(device) => device.read(port, bar, offset, size),)* }
            }

            fn write(
                &mut self,
                port: &mut Attachment,
                bar: usize,
                offset: u64,
                size: u8,
                value: u32,
            ) {
                match self { $(Self::$kind(device) => device.write(port, bar, offset, size, value),)* }
            }

            fn reset(&mut self) {
                match self { $(Self::$kind(device) => device.reset(),)* }
            }

            fn next_deadline(&self) -> Option<Picoseconds> {
                match self { $(Self::$kind(device) => device.next_deadline(),)* }
            }

            fn advance(&mut self, port: &mut Attachment) {
                match self { $(Self::$kind(device) => device.advance(port),)* }
            }

            fn take_departed(&mut self) -> Option<(FunctionAddress, Vec<Vec<u8>>)> {
                match self { $(Self::$kind(device) => device.take_departed(),)* }
            }

            fn receive(&mut self, port: &mut Attachment, frame: &[u8]) {
                match self { $(Self::$kind(device) => device.receive(port, frame),)* }
            }

            fn disk_mut(&mut self) -> Option<&mut Disk> {
                match self { $(Self::$kind(device) => device.disk_mut(),)* }
            }

            fn has_session_elsewhere(&self) -> bool {
                match self { $(Self::$kind(device) => device.has_session_elsewhere(),)* }
            }
        }

        impl Request {
            fn row(&self) -> Row {
                match self { $(Self::$kind(_) => Row::$kind,)* }
            }

            /// Where its functions are put.
            pub fn places(&self) -> Places {
                match self { $(Self::$kind(request) => request.places(),)* }
            }

            /// How many functions it makes.
            pub fn count(&self) -> usize {
                match self { $(Self::$kind(request) => request.count(),)* }
            }

            /// What a machine must share to go on with this one's state.
            pub fn digest(&self) -> String {
                match self { $(Self::$kind(request) => request.digest(),)* }
            }

            /// The disk that it brings along.
            pub fn disk(&self) -> Option<&Disk> {
                match self { $(Self::$kind(request) => request.disk(),)* }
            }

            fn functions(
                &self,
                number: u8,
                at: &[FunctionAddress],
                room: &mut Room,
            ) -> Vec<Function<Device>> {
                match self { $(Self::$kind(request) => {
                    let made = request.functions(number, at, room);
                    made.into_iter().map(Function::into_kind).collect()
                })* }
            }

            /// Reads `NAME[,KEY=VALUE...]`.
            pub fn parse(text: &str, images: &dyn Images) -> Result<Self, String> {
                let (name, mut options) = Options::split(text, images)?;
                $(if let Some(Name { takes, ask, .. }) = named(<$request>::NAMES, name) {
                    let request = ask(&mut options)?;
                    options.end(takes)?;
                    return Ok(Self::$kind(request));
                })*
                let names: Vec<_> = Self::names().iter().map(|(name, _)| *name).collect();
                Err(format!("{name:?}: must be one of {}", names.join(", ")))
            }

            /// The names that [`Self::parse`] knows, each with the options that it takes.
            pub fn names() -> Vec<(&'static str, &'static str)> {
                let mut names = Vec::new();
                $(names.extend(<$request>::NAMES.iter().map(|name| (name.name, name.takes)));)*
                names
            }
        }
    };
}

registry! {
    /// Bridges, and the function of an IOMMU: configuration space only.
    Onboard: onboard::Onboard,
    /// The function for measuring interrupts.
    Pulse: pulse::Request,
    /// The function for measuring accesses.
    Test: test_function::Request,
    /// A virtio device behind its PCI transport.
    Virtio: virtio::Model,
    /// A virtual function of a network controller.
    Intel82599: intel_82599::Wire,
    /// An NVM Express controller.
    Nvme: nvme::Drive,
    /// A DMA engine.
    Ioat: ioat::Request,
}

/// A board's PCI bus.
pub type Bus = PciBus<Device>;

fn named<T>(names: &'static [Name<T>], wanted: &str) -> Option<&'static Name<T>> {
    names.iter().find(|name| name.name == wanted)
}

/// The order on the bus: that of the rows, and within a row that of the configuration.
pub fn in_order(requests: &[Request]) -> Vec<&Request> {
    let mut ordered: Vec<&Request> = requests.iter().collect();
    ordered.sort_by_key(|request| request.row());
    ordered
}

/// Puts functions on the bus as they are asked for, as far as there are places.
pub fn populate(pci: &mut Bus, requests: &[Request]) {
    let (mut taken, mut numbers) = (BTreeMap::new(), BTreeMap::new());
    for request in in_order(requests) {
        let (places, count) = (request.places(), request.count());
        let taken: &mut usize = taken.entry(places).or_default();
        let number: &mut usize = numbers.entry(request.row()).or_default();
        let at: Vec<_> = places.addresses().skip(*taken).take(count).collect();
        if at.len() < count {
            continue;
        }
        for function in request.functions(*number as u8, &at, &mut pci.room) {
            let is_added = pci.add(function);
            debug_assert!(is_added, "the map gives every function a place of its own");
        }
        *taken += count;
        *number += count;
    }
}

/// Whether all find a place, or what to tell the user.
pub fn check_places(requests: &[Request]) -> Result<(), String> {
    let mut counts = BTreeMap::new();
    for request in requests {
        let count: &mut usize = counts.entry(request.places()).or_default();
        *count += request.count();
        let most = request.places().count();
        if *count > most {
            let first = request.places().addresses().next();
            let first = first.map_or_else(String::new, |at| at.to_string());
            return Err(format!(
                "{count} functions from {first} on, there can be at most {most} there"
            ));
        }
    }
    Ok(())
}

/// Gives the disks of a restored bus the storages of those that it was asked for with.
pub fn attach_disks(pci: &mut Bus, requests: &[Request]) -> Result<(), StorageError> {
    let restored = pci.functions_mut().iter_mut().filter_map(|f| f.device.disk_mut());
    let asked = in_order(requests).into_iter().filter_map(Request::disk);
    for (restored, asked) in restored.zip(asked) {
        if let Some(storage) = asked.storage() {
            restored.attach(storage)?;
        }
    }
    Ok(())
}

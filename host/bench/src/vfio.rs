//! A PCI function of the host as vfio gives it to a process, by way of groups and the type 1 IOMMU
//! driver, which every distribution's kernel has. [LINUX "VFIO - Virtual Function I/O"]
//!
//! Left out: functions that share a group with others, iommufd, INTx, MSI.

mod interface;
mod window;

use self::interface::*;
pub(crate) use self::window::Window;
use crate::error::BenchError;
use arch::pci::{Command, header};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// One of the function's base address registers, or its configuration space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    pub(crate) bytes: u64,
    /// In the device's file.
    offset: u64,
    can_map: bool,
}

/// A function that this process has.
#[derive(Debug)]
pub(crate) struct Function {
    /// As PCI has it, such as `0000:00:1d.0`.
    address: String,
    device: File,
    /// It has the translations of the function's accesses.
    container: File,
    /// As long as it is open, so is the group's part of the container.
    _group: File,
    configuration: Region,
    can_reset: bool,
}

impl Function {
    /// Takes the function at `address`, such as `0000:00:1d.0`, which is bound to vfio-pci, and
    /// resets it if it can be reset by itself. It answers accesses then, and reaches no memory.
    pub(crate) fn open(address: &str) -> Result<Self, BenchError> {
        let refused = |what: &str, error| BenchError::function(address, what, error);
        let link = format!("/sys/bus/pci/devices/{address}/iommu_group");
        let group = std::fs::read_link(&link).map_err(|error| refused(&link, error))?;
        let group = Path::new("/dev/vfio").join(group.file_name().unwrap_or_default());
        let open = |path: &Path| {
            let file = File::options().read(true).write(true).open(path);
            file.map_err(|error| refused(&path.display().to_string(), error))
        };
        let (container, group) = (open(Path::new("/dev/vfio/vfio"))?, open(&group)?);
        set_container(&group, &container)
            .map_err(|error| refused("VFIO_GROUP_SET_CONTAINER", error))?;
        request_value(&container, SET_IOMMU, TYPE1V2)
            .map_err(|error| refused("VFIO_SET_IOMMU", error))?;
        let device = CString::new(address)
            .map_err(io::Error::other)
            .and_then(|name| device_of(&group, &name))
            .map_err(|error| refused("VFIO_GROUP_GET_DEVICE_FD", error))?;
        let mut information = DeviceInformation::default();
        request(&device, &mut information)
            .map_err(|error| refused("VFIO_DEVICE_GET_INFO", error))?;
        let configuration = region(&device, CONFIGURATION_SPACE)
            .map_err(|error| refused("VFIO_DEVICE_GET_REGION_INFO", error))?;
        let function = Self {
            address: address.into(),
            device,
            container,
            _group: group,
            configuration,
            can_reset: information.flags & CAN_RESET != 0,
        };
        function.reset()?;
        Ok(function)
    }

    /// Resets the function, if it can be reset by itself, and lets it answer accesses.
    pub(crate) fn reset(&self) -> Result<(), BenchError> {
        if self.can_reset {
            request_value(&self.device, DEVICE_RESET, 0)
                .map_err(|error| self.refused("VFIO_DEVICE_RESET", error))?;
        }
        self.set_bus_master(false)
    }

    /// Whether the function may reach memory and send messages. It answers accesses in any case:
    /// whether the guest's processors reach it is up to what of it is mapped.
    pub(crate) fn set_bus_master(&self, may_reach: bool) -> Result<(), BenchError> {
        let command = Command::from_bits_retain(self.read_configuration(header::COMMAND, 2)? as u16)
            | Command::MEMORY_SPACE;
        let command =
            if may_reach { command | Command::BUS_MASTER } else { command - Command::BUS_MASTER };
        let at = self.configuration.offset + u64::from(header::COMMAND);
        self.device
            .write_all_at(&command.bits().to_le_bytes(), at)
            .map_err(|error| self.refused("the command register", error))
    }

    /// Reads 1, 2 or 4 bytes of the configuration space.
    pub(crate) fn read_configuration(&self, offset: u16, size: usize) -> Result<u32, BenchError> {
        let mut bytes = [0; 4];
        self.device
            .read_exact_at(&mut bytes[..size.min(4)], self.configuration.offset + u64::from(offset))
            .map_err(|error| self.refused("its configuration space", error))?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Lets the function reach `bytes` of this process's memory at `process_address` by the
    /// addresses from `device_address` on.
    ///
    /// # Safety
    ///
    /// The memory must stay mapped for as long as this value lives, and nothing may take it for
    /// memory that only this program changes.
    pub(crate) unsafe fn map(
        &self,
        process_address: u64,
        device_address: u64,
        bytes: u64,
    ) -> io::Result<()> {
        let flags = MAP_READ_WRITE;
        let mut map = Map { size: 0, flags, process_address, device_address, bytes };
        request(&self.container, &mut map)
    }

    /// Has the MSI-X vectors from the first on raise events; without events the function sends
    /// nothing any more. Needs as many of the host's vectors as there are events.
    pub(crate) fn interrupt_by<'a, E: AsRawFd + 'a>(
        &self,
        events: impl ExactSizeIterator<Item = &'a E>,
    ) -> Result<(), BenchError> {
        match set_interrupts(&self.device, events.map(AsRawFd::as_raw_fd)) {
            Ok(0) => Ok(()),
            Ok(fewer) => {
                let error = io::Error::other(format!("the host has {fewer} vectors left"));
                Err(self.refused("VFIO_DEVICE_SET_IRQS", error))
            }
            Err(error) => Err(self.refused("VFIO_DEVICE_SET_IRQS", error)),
        }
    }

    /// The region of a base address register, 0 to 5; of no bytes where there is none.
    pub(crate) fn region(&self, bar: u32) -> Result<Region, BenchError> {
        region(&self.device, FIRST_BAR + bar)
            .map_err(|error| self.refused("VFIO_DEVICE_GET_REGION_INFO", error))
    }

    /// Maps a part of a region, whole pages. Nothing where the kernel maps nothing of it: accesses
    /// go through [`Self::read`] and [`Self::write`] then.
    pub(crate) fn window(&self, region: &Region, offset: u64, bytes: u64) -> Option<Window> {
        let is_wanted = region.can_map && bytes > 0;
        is_wanted.then(|| Window::map(&self.device, region.offset, offset, bytes).ok())?
    }

    /// Reads a region at an offset.
    pub(crate) fn read(&self, region: &Region, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.device.read_exact_at(into, region.offset + offset)
    }

    /// Writes a region at an offset.
    pub(crate) fn write(&self, region: &Region, offset: u64, from: &[u8]) -> io::Result<()> {
        self.device.write_all_at(from, region.offset + offset)
    }

    pub(crate) fn refused(&self, what: &str, error: io::Error) -> BenchError {
        BenchError::function(&self.address, what, error)
    }
}

fn region(device: &File, index: u32) -> io::Result<Region> {
    let mut region = RegionInformation { index, ..RegionInformation::default() };
    match request(device, &mut region) {
        Ok(()) => {
            let can_map = region.flags & CAN_MAP != 0;
            Ok(Region { bytes: region.bytes, offset: region.offset, can_map })
        }
        Err(error) => Err(error),
    }
}

//! A PCI function of the host as vfio gives it to a process, by way of groups and the type 1 IOMMU
//! driver, which every distribution's kernel has. [LINUX "VFIO - Virtual Function I/O"]
//!
//! Left out: functions that share a group with others, iommufd, INTx, interrupts by eventfds that
//! are taken away again.

use crate::error::BenchError;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// `_IO(';', 100 + n)` of <linux/vfio.h>.
const BASE: libc::c_ulong = 0x3B64;
const SET_IOMMU: libc::c_ulong = BASE + 2;
const GROUP_SET_CONTAINER: libc::c_ulong = BASE + 4;
const GROUP_GET_DEVICE: libc::c_ulong = BASE + 6;
const DEVICE_REGION_INFORMATION: libc::c_ulong = BASE + 8;
const DEVICE_SET_INTERRUPTS: libc::c_ulong = BASE + 10;
const IOMMU_MAP: libc::c_ulong = BASE + 13;

/// VFIO_TYPE1v2_IOMMU
const TYPE1V2: libc::c_ulong = 3;
/// Regions of PCI functions: six of BARs, the expansion ROM, and the configuration space.
const FIRST_BAR: u32 = 0;
const CONFIGURATION_SPACE: u32 = 7;
/// VFIO_PCI_MSIX_IRQ_INDEX
const MSIX: u32 = 2;
/// VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER
const TRIGGER_EVENTFD: u32 = 1 << 2 | 1 << 5;
/// Readable and writable by the function.
const MAP_READ_WRITE: u32 = 0b11;
/// The command register, with what lets a function answer and reach memory.
const COMMAND: u64 = 4;
const MEMORY_AND_BUS_MASTER: u16 = 0b110;

/// `struct vfio_region_info`
#[repr(C)]
#[derive(Default)]
struct RegionInformation {
    size: u32,
    flags: u32,
    index: u32,
    capabilities: u32,
    bytes: u64,
    offset: u64,
}

/// `struct vfio_iommu_type1_dma_map`
#[repr(C)]
struct Map {
    size: u32,
    flags: u32,
    process_address: u64,
    device_address: u64,
    bytes: u64,
}

/// `struct vfio_irq_set` with one eventfd behind it.
#[repr(C)]
struct InterruptSet {
    size: u32,
    flags: u32,
    index: u32,
    start: u32,
    count: u32,
    event: RawFd,
}

/// A function that this process has.
#[derive(Debug)]
pub(crate) struct Function {
    device: File,
    /// It has the translations of the function's accesses.
    container: File,
    /// As long as it is open, so is the group's part of the container.
    _group: File,
    first_bar: u64,
}

impl Function {
    /// Takes the function at `address`, such as `0000:00:1d.0`, which is bound to vfio-pci.
    pub(crate) fn open(address: &str) -> Result<Self, BenchError> {
        let refused = |what: &str, error: io::Error| BenchError::Function {
            address: address.into(),
            what: what.into(),
            error: error.to_string(),
        };
        let link = format!("/sys/bus/pci/devices/{address}/iommu_group");
        let group = std::fs::read_link(&link).map_err(|error| refused(&link, error))?;
        let group = Path::new("/dev/vfio").join(group.file_name().unwrap_or_default());
        let open = |path: &Path| {
            let file = File::options().read(true).write(true).open(path);
            file.map_err(|error| refused(&path.display().to_string(), error))
        };
        let (container, group) = (open(Path::new("/dev/vfio/vfio"))?, open(&group)?);
        let mut descriptor = container.as_raw_fd();
        request(&group, GROUP_SET_CONTAINER, &mut descriptor)
            .map_err(|error| refused("VFIO_GROUP_SET_CONTAINER", error))?;
        request_value(&container, SET_IOMMU, TYPE1V2)
            .map_err(|error| refused("VFIO_SET_IOMMU", error))?;
        let mut name: Vec<u8> = address.bytes().chain([0]).collect();
        let device = request(&group, GROUP_GET_DEVICE, name.as_mut_slice())
            .map_err(|error| refused("VFIO_GROUP_GET_DEVICE_FD", error))?;
        // SAFETY: the kernel has just made this descriptor for us, and nobody else has it.
        let device = unsafe { File::from_raw_fd(device) };
        let region = |index| {
            let size = size_of::<RegionInformation>() as u32;
            let mut region = RegionInformation { size, index, ..RegionInformation::default() };
            request(&device, DEVICE_REGION_INFORMATION, &mut region)
                .map_err(|error| refused("VFIO_DEVICE_GET_REGION_INFO", error))?;
            Ok::<u64, BenchError>(region.offset)
        };
        let (first_bar, space) = (region(FIRST_BAR)?, region(CONFIGURATION_SPACE)?);
        let mut command = [0; 2];
        let command_at = space + COMMAND;
        device
            .read_exact_at(&mut command, command_at)
            .and_then(|()| {
                let command = u16::from_le_bytes(command) | MEMORY_AND_BUS_MASTER;
                device.write_all_at(&command.to_le_bytes(), command_at)
            })
            .map_err(|error| refused("the command register", error))?;
        Ok(Self { device, container, _group: group, first_bar })
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
        let size = size_of::<Map>() as u32;
        let flags = MAP_READ_WRITE;
        let mut map = Map { size, flags, process_address, device_address, bytes };
        request(&self.container, IOMMU_MAP, &mut map).map(drop)
    }

    /// Has the first MSI-X vector raise an event.
    pub(crate) fn interrupt_by(&self, event: &impl AsRawFd) -> io::Result<()> {
        let size = size_of::<InterruptSet>() as u32;
        let (flags, event) = (TRIGGER_EVENTFD, event.as_raw_fd());
        let mut set = InterruptSet { size, flags, index: MSIX, start: 0, count: 1, event };
        request(&self.device, DEVICE_SET_INTERRUPTS, &mut set).map(drop)
    }

    /// Reads a register of the first BAR.
    pub(crate) fn read(&self, register: u64) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.device.read_exact_at(&mut bytes, self.first_bar + register)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Writes a register of the first BAR.
    pub(crate) fn write(&self, register: u64, value: u32) -> io::Result<()> {
        self.device.write_all_at(&value.to_le_bytes(), self.first_bar + register)
    }
}

/// A request whose argument is a structure that the kernel reads and may write.
fn request<T: ?Sized>(file: &File, number: libc::c_ulong, argument: &mut T) -> io::Result<i32> {
    let pointer = std::ptr::from_mut(argument).cast::<libc::c_void>();
    // SAFETY: the requests above take a structure of the type that each call passes, of the size
    // that its first field says, or a string with its end.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), number, pointer) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A request whose argument is a number.
fn request_value(file: &File, number: libc::c_ulong, value: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the kernel takes the argument for a number and reaches no memory by it.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), number, value) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

//! Requests and structures of <linux/vfio.h>. [LINUX "VFIO - Virtual Function I/O"]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// `_IO(';', 100 + n)`
const BASE: libc::c_ulong = 0x3B64;
pub(super) const SET_IOMMU: libc::c_ulong = BASE + 2;
pub(super) const GROUP_SET_CONTAINER: libc::c_ulong = BASE + 4;
pub(super) const GROUP_GET_DEVICE: libc::c_ulong = BASE + 6;
pub(super) const DEVICE_INFORMATION: libc::c_ulong = BASE + 7;
pub(super) const DEVICE_REGION_INFORMATION: libc::c_ulong = BASE + 8;
pub(super) const DEVICE_SET_INTERRUPTS: libc::c_ulong = BASE + 10;
pub(super) const DEVICE_RESET: libc::c_ulong = BASE + 11;
pub(super) const IOMMU_MAP: libc::c_ulong = BASE + 13;

/// VFIO_TYPE1v2_IOMMU
pub(super) const TYPE1V2: libc::c_ulong = 3;
/// Regions of PCI functions: six of BARs, the expansion ROM, and the configuration space.
pub(super) const FIRST_BAR: u32 = 0;
pub(super) const CONFIGURATION_SPACE: u32 = 7;
/// VFIO_DEVICE_FLAGS_RESET
pub(super) const CAN_RESET: u32 = 1 << 0;
/// VFIO_REGION_INFO_FLAG_MMAP
pub(super) const CAN_MAP: u32 = 1 << 2;
/// VFIO_PCI_MSIX_IRQ_INDEX
pub(super) const MSIX: u32 = 2;
/// VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER
pub(super) const TRIGGER_EVENTFD: u32 = 1 << 2 | 1 << 5;
/// VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_TRIGGER
pub(super) const TRIGGER_NONE: u32 = 1 << 0 | 1 << 5;
/// Readable and writable by the function.
pub(super) const MAP_READ_WRITE: u32 = 0b11;

/// `struct vfio_device_info`
#[repr(C)]
#[derive(Default)]
pub(super) struct DeviceInformation {
    pub size: u32,
    pub flags: u32,
    pub regions: u32,
    pub interrupts: u32,
    pub capabilities: u32,
    pub padding: u32,
}

/// `struct vfio_region_info`
#[repr(C)]
#[derive(Default)]
pub(super) struct RegionInformation {
    pub size: u32,
    pub flags: u32,
    pub index: u32,
    pub capabilities: u32,
    pub bytes: u64,
    pub offset: u64,
}

/// `struct vfio_iommu_type1_dma_map`
#[repr(C)]
pub(super) struct Map {
    pub size: u32,
    pub flags: u32,
    pub process_address: u64,
    pub device_address: u64,
    pub bytes: u64,
}

/// Double words of `struct vfio_irq_set` before its eventfds: size, flags, index, start, count.
const INTERRUPT_SET: usize = 5;

/// `struct vfio_irq_set` for the MSI-X vectors from 0 on, each with an event; without events none
/// is taken any more.
pub(super) fn interrupt_set(events: impl ExactSizeIterator<Item = RawFd>) -> Vec<u32> {
    let count = events.len();
    let size = ((INTERRUPT_SET + count) * size_of::<u32>()) as u32;
    let flags = if count == 0 { TRIGGER_NONE } else { TRIGGER_EVENTFD };
    let head: [u32; INTERRUPT_SET] = [size, flags, MSIX, 0, count as u32];
    head.into_iter().chain(events.map(|event| event as u32)).collect()
}

/// A request whose argument is a structure that the kernel reads and may write.
pub(super) fn request<T: ?Sized>(
    file: &File,
    number: libc::c_ulong,
    argument: &mut T,
) -> io::Result<i32> {
    let pointer = std::ptr::from_mut(argument).cast::<libc::c_void>();
    // SAFETY: the requests above take a structure of the type that each call passes, of the size
    // that its first field says, or a string with its end.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), number, pointer) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A request whose argument is a number.
pub(super) fn request_value(
    file: &File,
    number: libc::c_ulong,
    value: libc::c_ulong,
) -> io::Result<()> {
    // SAFETY: the kernel takes the argument for a number and reaches no memory by it.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), number, value) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_set_says_its_size_and_ends_with_its_events() {
        assert_eq!(interrupt_set([7, 9].into_iter()), [28, 0x24, 2, 0, 2, 7, 9]);
        assert_eq!(interrupt_set([].into_iter()), [20, 0x21, 2, 0, 0], "all are taken away");
    }
}

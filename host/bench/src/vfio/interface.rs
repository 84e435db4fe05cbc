//! Requests and structures of <linux/vfio.h>. [LINUX "VFIO - Virtual Function I/O"]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};

/// `_IO(';', 100 + n)`
const BASE: libc::c_ulong = 0x3B64;
pub(super) const SET_IOMMU: libc::c_ulong = BASE + 2;
const GROUP_SET_CONTAINER: libc::c_ulong = BASE + 4;
const GROUP_GET_DEVICE: libc::c_ulong = BASE + 6;
const DEVICE_INFORMATION: libc::c_ulong = BASE + 7;
const DEVICE_REGION_INFORMATION: libc::c_ulong = BASE + 8;
const DEVICE_SET_INTERRUPTS: libc::c_ulong = BASE + 10;
pub(super) const DEVICE_RESET: libc::c_ulong = BASE + 11;
const IOMMU_MAP: libc::c_ulong = BASE + 13;

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
#[derive(Default)]
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
fn interrupt_set(events: impl ExactSizeIterator<Item = RawFd>) -> Vec<u32> {
    let count = events.len();
    let size = ((INTERRUPT_SET + count) * size_of::<u32>()) as u32;
    let flags = if count == 0 { TRIGGER_NONE } else { TRIGGER_EVENTFD };
    let head: [u32; INTERRUPT_SET] = [size, flags, MSIX, 0, count as u32];
    head.into_iter().chain(events.map(|event| event as u32)).collect()
}

/// Lets the function's vectors raise events; what the kernel has fewer is its answer.
pub(super) fn set_interrupts(
    device: &File,
    events: impl ExactSizeIterator<Item = RawFd>,
) -> io::Result<i32> {
    let set = interrupt_set(events);
    // SAFETY: the request reads as many bytes as the set says that it has, and it has them.
    unsafe { call(device, DEVICE_SET_INTERRUPTS, set.as_ptr().cast()) }
}

/// Puts a group into a container.
pub(super) fn set_container(group: &File, container: &File) -> io::Result<()> {
    let descriptor = container.as_raw_fd();
    // SAFETY: the request reads the number that the pointer leads to.
    unsafe { call(group, GROUP_SET_CONTAINER, (&raw const descriptor).cast()) }.map(drop)
}

/// The file of a group's device with this address.
pub(super) fn device_of(group: &File, address: &CStr) -> io::Result<File> {
    // SAFETY: the request reads a text up to its end.
    let device = unsafe { call(group, GROUP_GET_DEVICE, address.as_ptr().cast()) }?;
    // SAFETY: the kernel has just made this descriptor for us, and nobody else has it.
    Ok(unsafe { File::from_raw_fd(device) })
}

/// What a request reads, and may write as far as the size goes that is the first field.
pub(super) trait Structure {
    /// Its request.
    const REQUEST: libc::c_ulong;
    /// Its first field.
    fn size(&mut self) -> &mut u32;
}

macro_rules! structure {
    ($name:ident, $request:ident) => {
        impl Structure for $name {
            const REQUEST: libc::c_ulong = $request;

            fn size(&mut self) -> &mut u32 {
                &mut self.size
            }
        }
    };
}

structure!(DeviceInformation, DEVICE_INFORMATION);
structure!(RegionInformation, DEVICE_REGION_INFORMATION);
structure!(Map, IOMMU_MAP);

/// The request of a structure.
pub(super) fn request<S: Structure>(file: &File, argument: &mut S) -> io::Result<()> {
    *argument.size() = size_of::<S>() as u32;
    // SAFETY: the structure is the request's own and has the size that it says.
    unsafe { call(file, S::REQUEST, std::ptr::from_mut(argument).cast()) }.map(drop)
}

/// # Safety
///
/// The pointer leads to what the request reads and writes.
unsafe fn call(
    file: &File,
    number: libc::c_ulong,
    argument: *const libc::c_void,
) -> io::Result<i32> {
    // SAFETY: as the caller says.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), number, argument) };
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

    /// Each way to the kernel, with a file that answers none of vfio's requests.
    #[test]
    fn a_request_that_a_file_does_not_know_is_an_error() {
        let file = File::open("/proc/self/status").expect("a file");
        let unknown = |outcome: io::Result<()>| {
            assert_eq!(outcome.unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        };
        unknown(request(&file, &mut DeviceInformation::default()));
        unknown(request(&file, &mut RegionInformation::default()));
        unknown(request(&file, &mut Map::default()));
        unknown(set_container(&file, &file));
        unknown(device_of(&file, c"0000:00:1d.0").map(drop));
        unknown(set_interrupts(&file, [1].into_iter()).map(drop));
        unknown(request_value(&file, SET_IOMMU, TYPE1V2));
    }

    #[test]
    fn structures_have_the_kernel_s_sizes_and_say_them() {
        let file = File::open("/proc/self/status").expect("a file");
        let (mut device, mut region) = (DeviceInformation::default(), RegionInformation::default());
        let mut map = Map::default();
        let _ =
            (request(&file, &mut device), request(&file, &mut region), request(&file, &mut map));
        assert_eq!([device.size, region.size, map.size], [24, 32, 32]);
    }
}

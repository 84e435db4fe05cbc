//! A part of a function's region in this process's memory, for KVM to map into a guest.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Mapped for as long as it lives. Nothing in this process reaches the bytes.
#[derive(Debug)]
pub(crate) struct Window {
    address: *mut libc::c_void,
    bytes: usize,
    /// From the region's beginning.
    pub(crate) offset: u64,
}

// SAFETY: the pointer is only handed to the kernel: to KVM as a number, and to munmap once.
unsafe impl Send for Window {}

impl Window {
    /// `bytes` of a region that begins at `region` of the file, from `offset` of it on.
    pub(super) fn map(file: &File, region: u64, offset: u64, bytes: u64) -> io::Result<Self> {
        let length = usize::try_from(bytes).map_err(io::Error::other)?;
        let place = libc::off_t::try_from(region + offset).map_err(io::Error::other)?;
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let (nowhere, descriptor) = (std::ptr::null_mut(), file.as_raw_fd());
        // SAFETY: a new mapping at an address that the kernel chooses changes no memory that this
        // program has.
        let address = unsafe { libc::mmap(nowhere, length, access, flags, descriptor, place) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { address, bytes: length, offset })
    }

    /// Where it is in this process.
    pub(crate) fn address(&self) -> u64 {
        self.address as u64
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes as u64
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no reference into it exists.
        unsafe { libc::munmap(self.address, self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, memfd_create};

    /// Mappings of this process that are of the test's file, in bytes.
    fn mapped(name: &str) -> Vec<u64> {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
        let own = maps.lines().filter(|line| line.contains(name));
        let ranges = own.filter_map(|line| line.split([' ', '-']).next());
        ranges.map(|start| u64::from_str_radix(start, 16).expect("an address")).collect()
    }

    #[test]
    fn a_window_is_mapped_as_long_as_it_lives() {
        const NAME: &str = "avicenna-window";
        let file = File::from(memfd_create(NAME, MemfdFlags::CLOEXEC).expect("memory"));
        file.set_len(3 * 4096).expect("memory");
        let window = Window::map(&file, 4096, 4096, 4096).expect("a window");
        assert_eq!((window.bytes(), window.offset), (4096, 4096));
        assert_eq!(mapped(NAME), [window.address()]);
        std::thread::scope(|scope| scope.spawn(move || drop(window)).join())
            .expect("it may be sent");
        assert!(mapped(NAME).is_empty());
        assert!(Window::map(&file, 1, 0, 4096).is_err(), "not a page's beginning");
        assert!(Window::map(&file, 0, 0, u64::MAX).is_err(), "more than there are addresses");
    }
}

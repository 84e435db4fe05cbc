//! Memory of one file, mapped twice: for writing, and for executing. Behind the latter lie the
//! slots of links, which code reads and nobody executes.

use crate::Absence;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

/// Bytes of code.
pub const CODE: usize = 64 << 20;
/// Links.
pub const SLOTS: usize = 1 << 20;
const SLOT_BYTES: usize = SLOTS * size_of::<u64>();

/// The mappings. They stay where they are until this is dropped.
pub struct Mapping {
    writable: NonNull<c_void>,
    /// `CODE` bytes that are readable and executable, then the slots, readable and writable.
    executable: NonNull<c_void>,
}

// SAFETY: the mappings belong to the process, and only who has the value reaches them.
unsafe impl Send for Mapping {}

impl Mapping {
    pub fn new() -> Result<Self, Absence> {
        Self::map().map_err(|_| Absence::Memory)
    }

    fn map() -> rustix::io::Result<Self> {
        let file = memfd_create("translated code", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, CODE as u64)?;
        let (read, write) = (ProtFlags::READ, ProtFlags::WRITE);
        // SAFETY: the kernel chooses the place, so nothing that is mapped is touched.
        let reserved = unsafe {
            mmap_anonymous(null_mut(), CODE + SLOT_BYTES, read | write, MapFlags::PRIVATE)
        }?;
        let whole = Reserved { at: reserved, length: CODE + SLOT_BYTES };
        let executable = read | ProtFlags::EXEC;
        let fixed = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: what is replaced are the first `CODE` bytes of what was reserved above, which
        // nothing refers to yet.
        unsafe { mmap(reserved, CODE, executable, fixed, &file, 0) }?;
        // SAFETY: the kernel chooses the place.
        let writable = unsafe { mmap(null_mut(), CODE, read | write, MapFlags::SHARED, &file, 0) }?;
        let null = rustix::io::Errno::NOMEM;
        let mapping = Self {
            writable: NonNull::new(writable).ok_or(null)?,
            executable: NonNull::new(reserved).ok_or(null)?,
        };
        std::mem::forget(whole);
        Ok(mapping)
    }

    /// The code, for writing.
    pub fn code_mut(&mut self) -> &mut [u8] {
        // SAFETY: `CODE` bytes are mapped there for reading and writing as long as `self` lives,
        // and this borrows all of `self`. Through the other mapping the same bytes are executed by
        // `Gate::enter` only, which borrows `self` as well.
        unsafe { std::slice::from_raw_parts_mut(self.writable.as_ptr().cast(), CODE) }
    }

    pub fn slots_mut(&mut self) -> &mut [u64] {
        // SAFETY: behind `CODE` bytes, a multiple of a page, `SLOTS` words are mapped for reading
        // and writing as long as `self` lives, and this borrows all of `self`.
        unsafe {
            std::slice::from_raw_parts_mut(self.executable.as_ptr().byte_add(CODE).cast(), SLOTS)
        }
    }

    /// The address at which the code's byte `offset` is executed.
    pub fn address(&self, offset: usize) -> u64 {
        self.executable.as_ptr().expose_provenance() as u64 + offset as u64
    }

    /// Of a slot.
    pub fn slot_address(&self, slot: usize) -> u64 {
        self.address(CODE + slot * size_of::<u64>())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        drop(Reserved { at: self.writable.as_ptr(), length: CODE });
        drop(Reserved { at: self.executable.as_ptr(), length: CODE + SLOT_BYTES });
    }
}

/// Addresses to give back.
struct Reserved {
    at: *mut c_void,
    length: usize,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `Mapping::map`, and the owner that drops this has no
        // reference into it any more. What cannot be given back stays mapped, which harms nobody.
        let _ = unsafe { munmap(self.at, self.length) };
    }
}

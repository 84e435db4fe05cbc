//! The guest's RAM: one contiguous block of ours, which nested page tables show from address 0 on.

#![expect(unsafe_code, reason = "the block is memory that Rust knows nothing of")]

use arch::address::{GuestPhysical, SystemPhysical};
use runtime::BootInformation;

/// Nested tables map the block by pages of this size.
pub const LARGE_PAGE: u64 = 2 << 20;
/// The runtime maps no more of our own memory than this.
const REACHABLE: u64 = 0xE000_0000;

/// Where the guest's RAM is, and how much there is of it.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    start: u64,
    size: u64,
}

impl Memory {
    /// Finds `size` bytes above our image and modules, in what the loader calls usable.
    pub fn reserve(boot: &BootInformation, size: u64) -> Result<Self, &'static str> {
        let taken = boot.modules.iter().map(|module| module.end).max().unwrap_or(0);
        let lowest = taken.max(runtime::boot::end_of_image()).next_multiple_of(LARGE_PAGE);
        let start = boot
            .memory
            .iter()
            .map(|region| (region.start.next_multiple_of(LARGE_PAGE).max(lowest), region.end))
            .find(|(start, end)| start + size <= (*end).min(REACHABLE));
        let (start, _) = start.ok_or("no usable region is large enough for the guest")?;
        Ok(Self { start, size })
    }

    pub fn size(self) -> u64 {
        self.size
    }

    /// Where the block is.
    pub fn start(self) -> SystemPhysical {
        SystemPhysical(self.start)
    }

    /// The place of `length` bytes; None unless all of them are RAM of the guest.
    fn place(self, address: GuestPhysical, length: usize) -> Option<*mut u8> {
        let end = address.0.checked_add(length as u64)?;
        (end <= self.size).then(|| (self.start + address.0) as *mut u8)
    }

    /// Copies out of the guest's RAM; false where it is not all RAM.
    pub fn read(self, address: GuestPhysical, bytes: &mut [u8]) -> bool {
        let Some(from) = self.place(address, bytes.len()) else { return false };
        // SAFETY: the block is ours, mapped, and never behind a Rust reference; the guest may write
        // it at the same time, which makes for any byte values, and all of them are bytes.
        unsafe { core::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
        true
    }

    /// Copies into the guest's RAM; false where it is not all RAM.
    pub fn write(self, address: GuestPhysical, bytes: &[u8]) -> bool {
        let Some(to) = self.place(address, bytes.len()) else { return false };
        // SAFETY: as in `read`.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        true
    }

    /// Fills a part of the guest's RAM with zeroes; false where it is not all RAM.
    pub fn clear(self, address: GuestPhysical, length: usize) -> bool {
        let Some(to) = self.place(address, length) else { return false };
        // SAFETY: as in `read`.
        unsafe { core::ptr::write_bytes(to, 0, length) };
        true
    }

    /// A 64-bit word of the guest's RAM: an entry of its page tables.
    pub fn read_word(self, address: GuestPhysical) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }

    /// Fills all of it with zeroes.
    pub fn clear_all(self) {
        self.clear(GuestPhysical(0), self.size as usize);
    }
}

//! Loading: what a boot loader does before the first instruction of a kernel runs.
//!
//! Four ways in, detected from the file itself: a Linux bzImage [LINUX-BOOT "64-bit Boot
//! Protocol"], an image with a header of Multiboot 1 [MULTIBOOT "Boot information format"] or 2
//! [MULTIBOOT2 "Boot information"], and an ELF image with a PVH note [PVH "Physical 32-bit entry
//! point"]. Images wrapped in gzip are unwrapped first. Every loader writes into guest memory and
//! answers with a [`BootState`]: the registers of the bootstrap processor at the kernel's first
//! instruction.
//!
//! Left out: EFI images, 16-bit real-mode entry of bzImages, video modes.

mod bzimage;
mod elf;
mod error;
mod image;
mod multiboot;
mod multiboot2;
mod placement;
mod pvh;
mod source;
mod state;
#[cfg(test)]
mod tests;
mod unpack;

pub use error::LoadError;
pub use image::Format;
pub use source::Source;
pub use state::{BootRegisters, BootState, EntryMode};

use crate::firmware::MemoryRegion;
use arch::address::SystemPhysical;
use bus::GuestMemory;
use placement::Placement;
use std::borrow::Cow;

/// A file that the kernel is handed in memory, with the text that goes with it.
#[derive(Clone, Copy, Debug)]
pub struct Module<'a> {
    /// Its name and bytes.
    pub file: Source<'a>,
    /// The text behind its name.
    pub command_line: &'a str,
}

/// What to boot, and what the firmware has left in memory for it.
#[derive(Clone, Copy, Debug)]
pub struct BootRequest<'a> {
    /// What is started, possibly gzip-compressed.
    pub kernel: Source<'a>,
    /// Without a NUL.
    pub command_line: &'a str,
    /// The initial RAM disk; a Multiboot or PVH kernel finds it as its first module.
    pub initrd: Option<Source<'a>>,
    /// In the order in which the kernel finds them.
    pub modules: &'a [Module<'a>],
    /// As firmware reports it.
    pub memory_map: &'a [MemoryRegion],
    /// Handed to kernels whose protocol has a field for it.
    pub rsdp: Option<SystemPhysical>,
}

impl<'a> BootRequest<'a> {
    /// The initial RAM disk and the modules as one list.
    fn all_modules(&self) -> Vec<Module<'a>> {
        let initrd = self.initrd.map(|file| Module { file, command_line: "" });
        initrd.into_iter().chain(self.modules.iter().copied()).collect()
    }
}

/// Loads the kernel and what goes with it; memory holds garbage where it fails half-way.
pub fn load(memory: &mut GuestMemory, request: &BootRequest) -> Result<BootState, LoadError> {
    let unwrapped = unwrap_gzip(request.kernel)?;
    let kernel = Source { name: request.kernel.name, bytes: &unwrapped };
    let request = &BootRequest { kernel, ..*request };
    let mut loader = Loader { memory, placement: Placement::new(request.memory_map), request };
    // The interrupt vector table and the BIOS data area stay as the firmware left them.
    loader.placement.claim(0, state::LOW_MEMORY_START);
    match image::detect(kernel.bytes) {
        Format::BzImage => bzimage::load(loader),
        Format::Multiboot { header } => multiboot::load(loader, header),
        Format::Multiboot2 { header } => multiboot2::load(loader, header),
        Format::ElfPvh => pvh::load(loader),
        Format::Other(found) => Err(LoadError::Unrecognized {
            file: kernel.name.into(),
            found: match unwrapped {
                Cow::Borrowed(_) => found,
                Cow::Owned(_) => format!("gzip of {found}"),
            },
        }),
    }
}

/// The image inside a gzip file; other files are themselves.
fn unwrap_gzip<'a>(file: Source<'a>) -> Result<Cow<'a, [u8]>, LoadError> {
    if !file.bytes.starts_with(unpack::GZIP) {
        return Ok(Cow::Borrowed(file.bytes));
    }
    let bytes = unpack::unpack(file, 0, file.bytes, unpack::LARGEST_KERNEL)?;
    Ok(Cow::Owned(bytes.unwrap_or_default()))
}

/// One load under way.
struct Loader<'a, 'm> {
    memory: &'m mut GuestMemory,
    placement: Placement,
    request: &'a BootRequest<'a>,
}

impl Loader<'_, '_> {
    /// Copies to memory that [`Placement`] has given out.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), LoadError> {
        self.memory.write(SystemPhysical(address), bytes).map_err(|_| LoadError::NoRoom {
            file: self.request.kernel.name.into(),
            what: format!("{} bytes at {address:#x}", bytes.len()),
            wanted: "RAM there".into(),
        })
    }

    fn no_room(&self, file: &str, what: String, wanted: String) -> LoadError {
        LoadError::NoRoom { file: file.into(), what, wanted }
    }

    /// Places a file's bytes as high as `window` allows, page-aligned.
    fn place_high(&mut self, file: Source, window: std::ops::Range<u64>) -> Result<u64, LoadError> {
        let size = file.bytes.len() as u64;
        let end = window.end;
        let start = self.placement.highest(size, 4096, window.clone()).ok_or_else(|| {
            let left = self.placement.largest(&window);
            let wanted = format!("as much free RAM below {end:#x}, where {left} bytes are left");
            self.no_room(file.name, format!("{size} bytes"), wanted)
        })?;
        self.write(start, file.bytes)?;
        Ok(start)
    }

    /// Places bytes as low as possible from `from` on, page-aligned, below 4 GiB.
    fn place_low(&mut self, name: &str, bytes: &[u8], from: u64) -> Result<u64, LoadError> {
        let start = self.reserve_low(name, bytes.len() as u64, from)?;
        self.write(start, bytes)?;
        Ok(start)
    }

    fn reserve_low(&mut self, name: &str, size: u64, from: u64) -> Result<u64, LoadError> {
        self.placement.lowest(size, 4096, from..1 << 32).ok_or_else(|| {
            self.no_room(name, format!("{size} bytes"), format!("free RAM above {from:#x}"))
        })
    }
}

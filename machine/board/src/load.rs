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
mod loader;
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
pub use loader::{BootRequest, Module};
pub use source::{ReadAt, Source};
pub use state::{BootRegisters, BootState, EntryMode};

use bus::GuestMemory;
use loader::Loader;
use placement::Placement;

/// Loads the kernel and what goes with it; memory holds garbage where it fails half-way.
pub fn load(memory: &mut GuestMemory, request: &BootRequest) -> Result<BootState, LoadError> {
    let unwrapped = unwrap_gzip(request.kernel)?;
    let kernel = match &unwrapped {
        Some(bytes) => Source::of(request.kernel.name, bytes),
        None => request.kernel,
    };
    let request = &BootRequest { kernel, ..*request };
    let mut loader = Loader { memory, placement: Placement::new(request.memory_map), request };
    // The interrupt vector table and the BIOS data area stay as the firmware left them.
    loader.placement.claim(0, state::LOW_MEMORY_START);
    match image::detect(kernel)? {
        Format::BzImage => bzimage::load(loader),
        Format::Multiboot { header } => multiboot::load(loader, header),
        Format::Multiboot2 { header } => multiboot2::load(loader, header),
        Format::ElfPvh => pvh::load(loader),
        Format::Other(found) => Err(LoadError::Unrecognized {
            file: kernel.name.into(),
            found: match unwrapped {
                None => found,
                Some(_) => format!("gzip of {found}"),
            },
        }),
    }
}

/// The image inside a gzip file; none in others, which are images themselves.
fn unwrap_gzip(file: Source) -> Result<Option<Vec<u8>>, LoadError> {
    if *file.head(unpack::GZIP.len() as u64)? != *unpack::GZIP {
        return Ok(None);
    }
    let bytes = unpack::unpack(file, 0, &file.whole()?, unpack::LARGEST_KERNEL)?;
    Ok(Some(bytes.unwrap_or_default()))
}

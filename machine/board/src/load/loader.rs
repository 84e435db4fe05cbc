//! What is loaded, and what every loader does: places are found and bytes written.

use super::error::LoadError;
use super::placement::Placement;
use super::source::Source;
use crate::firmware::MemoryRegion;
use arch::address::SystemPhysical;
use bus::GuestMemory;

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
    pub(super) fn all_modules(&self) -> Vec<Module<'a>> {
        let initrd = self.initrd.map(|file| Module { file, command_line: "" });
        initrd.into_iter().chain(self.modules.iter().copied()).collect()
    }
}

/// One load under way.
pub(super) struct Loader<'a, 'm> {
    pub memory: &'m mut GuestMemory,
    pub placement: Placement,
    pub request: &'a BootRequest<'a>,
}

impl Loader<'_, '_> {
    /// Copies to memory that [`Placement`] has given out.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), LoadError> {
        let written = self.memory.write(SystemPhysical(address), bytes);
        written.map_err(|_| self.no_ram(address, bytes.len()))
    }

    /// The same with `length` bytes of a file, which are `what`, from `offset` on.
    pub fn copy(
        &mut self,
        address: u64,
        file: Source,
        (offset, length): (u64, u64),
        what: &str,
    ) -> Result<(), LoadError> {
        file.check(offset, length, what)?;
        let length = length as usize;
        let fill = |into: &mut [u8]| file.copy(offset, into, what);
        let copied = self.memory.write_with(SystemPhysical(address), length, fill);
        copied.unwrap_or_else(|_| Err(self.no_ram(address, length)))
    }

    fn no_ram(&self, address: u64, length: usize) -> LoadError {
        LoadError::NoRoom {
            file: self.request.kernel.name.into(),
            what: format!("{length} bytes at {address:#x}"),
            wanted: "RAM there".into(),
        }
    }

    pub fn no_room(&self, file: &str, what: String, wanted: String) -> LoadError {
        LoadError::NoRoom { file: file.into(), what, wanted }
    }

    /// Places a file's bytes as high as `window` allows, page-aligned.
    pub fn place_high(
        &mut self,
        file: Source,
        window: std::ops::Range<u64>,
    ) -> Result<u64, LoadError> {
        let size = file.length();
        let end = window.end;
        let start = self.placement.highest(size, 4096, window.clone()).ok_or_else(|| {
            let left = self.placement.largest(&window);
            let wanted = format!("as much free RAM below {end:#x}, where {left} bytes are left");
            self.no_room(file.name, format!("{size} bytes"), wanted)
        })?;
        self.copy(start, file, (0, size), "all of it")?;
        Ok(start)
    }

    /// Places a file's bytes as `place_low` does.
    pub fn place_file_low(&mut self, file: Source, from: u64) -> Result<u64, LoadError> {
        let start = self.reserve_low(file.name, file.length(), from)?;
        self.copy(start, file, (0, file.length()), "all of it")?;
        Ok(start)
    }

    /// Places bytes as low as possible from `from` on, page-aligned, below 4 GiB.
    pub fn place_low(&mut self, name: &str, bytes: &[u8], from: u64) -> Result<u64, LoadError> {
        let start = self.reserve_low(name, bytes.len() as u64, from)?;
        self.write(start, bytes)?;
        Ok(start)
    }

    pub fn reserve_low(&mut self, name: &str, size: u64, from: u64) -> Result<u64, LoadError> {
        self.placement.lowest(size, 4096, from..1 << 32).ok_or_else(|| {
            self.no_room(name, format!("{size} bytes"), format!("free RAM above {from:#x}"))
        })
    }
}

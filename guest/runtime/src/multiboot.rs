//! What a Multiboot loader says: command line, memory, modules.
//! [MULTIBOOT "Boot information format"]

use crate::{boot, memory};

const BOOT_MAGIC: u32 = 0x2BAD_B002;
const HAS_COMMAND_LINE: u32 = 1 << 2;
const HAS_MODULES: u32 = 1 << 3;
const HAS_MEMORY_MAP: u32 = 1 << 6;
const USABLE: u32 = 1;

const LONGEST_COMMAND_LINE: usize = 1024;
/// Ranges of usable RAM that are kept of the loader's map.
pub const MOST_REGIONS: usize = 32;
/// Modules that are kept of the loader's list.
pub const MOST_MODULES: usize = 4;

/// From `start` up to `end`.
#[derive(Clone, Copy, Default, Debug)]
pub struct Region {
    /// Address of its first byte.
    pub start: u64,
    /// Address behind its last byte.
    pub end: u64,
}

/// A copy of what the loader left, so that its memory can be used.
pub struct BootInformation {
    command_line: [u8; LONGEST_COMMAND_LINE],
    command_line_length: usize,
    /// Usable RAM; unused entries are empty.
    pub memory: [Region; MOST_REGIONS],
    /// What was loaded beside the program; unused entries are empty.
    pub modules: [Region; MOST_MODULES],
}

impl BootInformation {
    /// Reads the loader's block; empty unless a Multiboot loader started us.
    pub(crate) fn read() -> Self {
        let mut information = Self {
            command_line: [0; LONGEST_COMMAND_LINE],
            command_line_length: 0,
            memory: [Region::default(); MOST_REGIONS],
            modules: [Region::default(); MOST_MODULES],
        };
        if boot::boot_magic == BOOT_MAGIC {
            // A block that points outside of memory is as good as one that ends there.
            let _ = information.fill(u64::from(boot::boot_information));
        }
        information
    }

    fn fill(&mut self, block: u64) -> Option<()> {
        let field = |offset| memory::read::<u32>(block + offset).map(u64::from);
        let flags = field(0)? as u32;
        if flags & HAS_COMMAND_LINE != 0 {
            let text = field(16)?;
            for (index, byte) in self.command_line.iter_mut().enumerate() {
                *byte = memory::read(text + index as u64)?;
                if *byte == 0 {
                    break;
                }
                self.command_line_length = index + 1;
            }
        }
        if flags & HAS_MODULES != 0 {
            let (count, list) = (field(20)?, field(24)?);
            for (index, module) in self.modules.iter_mut().enumerate().take(count as usize) {
                let entry = list + index as u64 * 16;
                let end = |offset| memory::read::<u32>(entry + offset).map(u64::from);
                *module = Region { start: end(0)?, end: end(4)? };
            }
        }
        if flags & HAS_MEMORY_MAP != 0 {
            self.read_memory_map(field(44)?, field(48)?)?;
        }
        Some(())
    }

    fn read_memory_map(&mut self, length: u64, start: u64) -> Option<()> {
        let mut regions = self.memory.iter_mut();
        let mut entry = start;
        while entry + 24 <= start + length {
            let size = u64::from(memory::read::<u32>(entry)?);
            let base = memory::read::<u64>(entry + 4)?;
            let bytes = memory::read::<u64>(entry + 12)?;
            if memory::read::<u32>(entry + 20)? == USABLE {
                *regions.next()? = Region { start: base, end: base.saturating_add(bytes) };
            }
            entry += size + 4;
        }
        Some(())
    }

    /// The words behind the program's name; empty where the loader gave none that are text.
    pub fn command_line(&self) -> &str {
        core::str::from_utf8(&self.command_line[..self.command_line_length]).unwrap_or("")
    }

    /// The value of the last `key=value` on the command line.
    pub fn option(&self, key: &str) -> Option<&str> {
        self.command_line()
            .split_ascii_whitespace()
            .filter_map(|word| word.split_once('='))
            .filter_map(|(name, value)| (name == key).then_some(value))
            .next_back()
    }

    /// The number after `key=`, or `default` where there is none that can be read.
    pub fn number(&self, key: &str, default: u64) -> u64 {
        self.option(key).and_then(|value| value.parse().ok()).unwrap_or(default)
    }

    /// The module at `index`, as bytes.
    pub fn module(&self, index: usize) -> Option<&'static [u8]> {
        let module = self.modules.get(index).filter(|module| module.start != 0)?;
        memory::bytes(module.start, usize::try_from(module.end.checked_sub(module.start)?).ok()?)
    }
}

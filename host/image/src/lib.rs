//! The bare-metal guests as bytes: Multiboot 1 images that every loader takes (this project's,
//! QEMU's `-kernel`, GRUB), so that nothing has to be found on a disk.
//!
//! They are built by this crate's build script from `guest/`, with nothing but cargo and the
//! linker.

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_docs)]

/// Measures interrupts and exits. See `guest/benchmark`.
pub const BENCHMARK: &[u8] = include_bytes!(env!("IMAGE_BENCHMARK"));
/// Work of known amount. See `guest/workload`.
pub const WORKLOAD: &[u8] = include_bytes!(env!("IMAGE_WORKLOAD"));
/// Runs a guest with software injection and with AVIC; has [`BENCHMARK`] built in. See
/// `guest/hypervisor`.
pub const HYPERVISOR: &[u8] = include_bytes!(env!("IMAGE_HYPERVISOR"));

/// Checks user interrupts, and measures SENDUIPI. See `guest/uintr`.
pub const UINTR: &[u8] = include_bytes!(env!("IMAGE_UINTR"));

/// Counts interrupts that come before the data that they announce. See `guest/overtake`.
pub const OVERTAKE: &[u8] = include_bytes!(env!("IMAGE_OVERTAKE"));

/// All of them, by name.
pub const ALL: [(&str, &[u8]); 5] = [
    ("benchmark", BENCHMARK),
    ("workload", WORKLOAD),
    ("uintr", UINTR),
    ("overtake", OVERTAKE),
    ("hypervisor", HYPERVISOR),
];

/// The image called `name`.
pub fn by_name(name: &str) -> Option<&'static [u8]> {
    ALL.into_iter().find_map(|(other, bytes)| (other == name).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A word of the file.
    fn word(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
    }

    /// Where the header is, as [MULTIBOOT "OS image format"] has loaders search.
    fn header(bytes: &[u8]) -> Option<usize> {
        (0..8192.min(bytes.len() - 32)).step_by(4).find(|&at| {
            let sum = (0..3).fold(0u32, |sum, n| sum.wrapping_add(word(bytes, at + 4 * n)));
            word(bytes, at) == 0x1BAD_B002 && sum == 0
        })
    }

    #[test]
    fn address_fields_of_the_header_agree_with_the_elf_segment() {
        for (name, bytes) in ALL {
            let at = header(bytes).unwrap_or_else(|| panic!("{name}: no Multiboot header"));
            let [header_address, load, load_end, bss_end, entry] =
                core::array::from_fn(|field| word(bytes, at + 12 + 4 * field));
            // The one program header follows the ELF header.
            let long = |offset: usize| u64::from(word(bytes, 64 + offset));
            let (offset, address, file, memory) = (long(8), long(24), long(32), long(40));
            assert_eq!(word(bytes, 64), 1, "{name}: loadable");
            assert_eq!(u64::from(load), address, "{name}");
            assert_eq!(u64::from(load_end - load), file, "{name}");
            assert_eq!(u64::from(bss_end - load), memory, "{name}");
            assert_eq!(u64::from(header_address - load) + offset, at as u64, "{name}");
            assert_eq!(entry, word(bytes, 24), "{name}: entry");
        }
    }

    #[test]
    fn images_are_small_and_found_by_name() {
        for (name, bytes) in ALL {
            assert!(bytes.len() < 256 << 10, "{name}: {} bytes", bytes.len());
            assert_eq!(by_name(name), Some(bytes));
        }
        assert_eq!(by_name("other"), None);
    }
}

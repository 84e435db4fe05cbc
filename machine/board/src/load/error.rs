//! Why an image cannot be started.

use thiserror::Error;

/// What is wrong with a kernel or with what goes with it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// No way in is known for such a file.
    #[error(
        "{file}: {found}; a kernel must be a Linux bzImage, an ELF64 vmlinux with a PVH note, \
         or an image with a header of Multiboot 1 in its first 8 KiB or of Multiboot 2 in its first 32"
    )]
    Unrecognized {
        /// Its name, as given.
        file: String,
        /// What it looks like.
        found: String,
    },
    /// A header points beyond the end.
    #[error(
        "{file}: truncated: {what} is {needed} bytes at offset {offset:#x}, the file ends at \
         {length:#x}"
    )]
    Truncated {
        /// Its name, as given.
        file: String,
        /// The part that is not whole.
        what: String,
        /// Where the part begins.
        offset: u64,
        /// Its bytes.
        needed: u64,
        /// The file's bytes.
        length: u64,
    },
    /// The system does not go on reading it.
    #[error("{file}: cannot read {what} at offset {offset:#x}: {reason}")]
    Read {
        /// Its name, as given.
        file: String,
        /// The part that was wanted.
        what: String,
        /// Where the part begins.
        offset: u64,
        /// What the system says.
        reason: String,
    },
    /// A header says what cannot be obeyed.
    #[error("{file}: {field} at offset {offset:#x} is {value:#x}, must be {expected}")]
    Field {
        /// Its name, as given.
        file: String,
        /// The field's name in its specification.
        field: String,
        /// Where it lies in the file.
        offset: u64,
        /// What it holds.
        value: u64,
        /// What it would have to hold.
        expected: String,
    },
    /// Compressed data are damaged.
    #[error("{file}: {format} data at offset {offset:#x} does not unpack: {reason}")]
    Unpack {
        /// Its name, as given.
        file: String,
        /// The compression's name.
        format: &'static str,
        /// Where they begin.
        offset: u64,
        /// What the unpacker says.
        reason: String,
    },
    /// RAM has no place left for it.
    #[error("{file}: no room for {what}, wanted {wanted}")]
    NoRoom {
        /// Its name, as given.
        file: String,
        /// What was to be placed.
        what: String,
        /// Where it could have gone.
        wanted: String,
    },
    /// The kernel would cut it short.
    #[error("{file}: command line of {length} bytes, the kernel takes at most {limit}")]
    CommandLineTooLong {
        /// Its name, as given.
        file: String,
        /// Bytes that were given.
        length: usize,
        /// Bytes that the kernel takes.
        limit: usize,
    },
    /// The kernel would not see what follows the NUL.
    #[error("{file}: command line holds a NUL byte at offset {offset:#x}, which would end it")]
    CommandLineNul {
        /// Its name, as given.
        file: String,
        /// Where the NUL is in the command line.
        offset: usize,
    },
    /// Its boot protocol knows no modules.
    #[error(
        "{file}: a Linux bzImage takes no module ({module}), only one initial RAM disk; \
         concatenate archives into one"
    )]
    ModulesForLinux {
        /// Its name, as given.
        file: String,
        /// The first one's name.
        module: String,
    },
}

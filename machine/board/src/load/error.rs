//! Why an image cannot be started.

use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    #[error(
        "{file}: {found}; a kernel must be a Linux bzImage, an ELF64 vmlinux with a PVH note, \
         or an image with a Multiboot 1 header in its first 8192 bytes"
    )]
    Unrecognized { file: String, found: String },
    #[error(
        "{file}: truncated: {what} is {needed} bytes at offset {offset:#x}, the file ends at \
         {length:#x}"
    )]
    Truncated { file: String, what: String, offset: u64, needed: u64, length: u64 },
    #[error("{file}: {field} at offset {offset:#x} is {value:#x}, must be {expected}")]
    Field { file: String, field: String, offset: u64, value: u64, expected: String },
    #[error("{file}: {format} data at offset {offset:#x} does not unpack: {reason}")]
    Unpack { file: String, format: &'static str, offset: u64, reason: String },
    #[error("{file}: no room for {what}, wanted {wanted}")]
    NoRoom { file: String, what: String, wanted: String },
    #[error("{file}: command line of {length} bytes, the kernel takes at most {limit}")]
    CommandLineTooLong { file: String, length: usize, limit: usize },
    #[error("{file}: command line holds a NUL byte at offset {offset:#x}, which would end it")]
    CommandLineNul { file: String, offset: usize },
    #[error(
        "{file}: a Linux bzImage takes no module ({module}), only one initial RAM disk; \
         concatenate archives into one"
    )]
    ModulesForLinux { file: String, module: String },
}

//! Why a host could not be read at all. What is merely missing is recorded in the facts instead.

use std::path::PathBuf;

/// What keeps a whole input from being read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system refuses.
    #[error("{path}: {cause}")]
    Read {
        /// The input.
        path: PathBuf,
        /// What the system says. Not `source`: the message has it, and a chain would repeat it.
        cause: crate::source::Error,
    },
    /// None of the forms that are known.
    #[error(
        "{path}: unknown: neither a folder, an archive (.tar, .tar.gz, .tar.xz, .tar.zst), a raw CPUID listing (cpuid -r), /proc/cpuinfo, lscpu output (plain or -J), a process list (ps), a kernel log nor an IVRS, DMAR or APIC table (binary, acpidump, iasl -d)"
    )]
    UnknownFormat {
        /// The input.
        path: PathBuf,
        /// What was read.
        text: String,
    },
    /// A file without a byte.
    #[error("{path}: empty")]
    Empty {
        /// The input.
        path: PathBuf,
    },
    /// What `cpuid` prints without `-r`.
    #[error(
        "{path}: cpuid's decoded listing, which leaves bits out; `cpuid -r` prints the registers themselves"
    )]
    Decoded {
        /// The input.
        path: PathBuf,
    },
    /// A file that is not an archive, and more than is looked through.
    #[error("{path}: no known format in the first {limit} MiB")]
    TooBig {
        /// The input.
        path: PathBuf,
        /// MiB that are read of one.
        limit: usize,
        /// What was read.
        text: String,
    },
    /// An archive of which nothing at all could be read.
    #[error("{path}: broken archive: {cause}")]
    Archive {
        /// The input.
        path: PathBuf,
        /// What the decompressor or the reader of tar says.
        cause: std::io::Error,
    },
    /// An ACPI table that contradicts itself.
    #[error("{path}: {what} at byte {offset}")]
    Table {
        /// The input, or the table in it.
        path: String,
        /// What was found, or what is missing.
        what: String,
        /// From the table's start.
        offset: usize,
    },
}

//! Why a host could not be read at all. What is merely missing is recorded in the facts instead.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error(
        "{path}: neither a folder, an archive (.tar, .tar.gz, .tar.xz, .tar.zst), a raw CPUID listing (cpuid -r), /proc/cpuinfo, lscpu output, a kernel log nor an IVRS, DMAR or APIC table (binary, acpidump, iasl -d)"
    )]
    UnknownFormat { path: PathBuf },
    #[error("{path}: damaged archive: {source}")]
    Archive { path: PathBuf, source: std::io::Error },
    #[error("{path}: {what} at byte {offset}")]
    Table { path: String, what: String, offset: usize },
}

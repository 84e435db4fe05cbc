//! Why a host could not be read at all. What is merely missing is recorded in the facts instead.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error(
        "{path}: unknown: neither a folder, an archive (.tar, .tar.gz, .tar.xz, .tar.zst), a raw CPUID listing (cpuid -r), /proc/cpuinfo, lscpu output (plain or -J), a process list (ps), a kernel log nor an IVRS, DMAR or APIC table (binary, acpidump, iasl -d)"
    )]
    UnknownFormat { path: PathBuf },
    #[error("{path}: empty")]
    Empty { path: PathBuf },
    #[error(
        "{path}: cpuid's decoded listing, which leaves bits out; `cpuid -r` prints the registers themselves"
    )]
    Decoded { path: PathBuf },
    #[error("{path}: a configuration, no host: avicenna lint judges it")]
    Configuration { path: PathBuf },
    #[error("{path}: too big: more than {limit} MiB, and nothing known in them")]
    TooBig { path: PathBuf, limit: usize },
    #[error("{path}: broken archive: {source}")]
    Archive { path: PathBuf, source: std::io::Error },
    #[error("{path}: {what} at byte {offset}")]
    Table { path: String, what: String, offset: usize },
}

//! Snapshots: a machine's state and memory as one file.
//!
//! The file is a head (magic, version, the configuration's digest, sizes, hash), the state as
//! postcard, the chunks of RAM that are not zero, each packed and hashed, and an end that says how
//! many there were. Decoded code is not part of it: a restored machine decodes again. Reading is
//! bounded by what the file really holds, so a forged size costs nothing. Images of disks are not
//! part of it, what was written over them is.

mod machine;
mod reader;
mod writer;

pub use machine::RestoreError;
pub use reader::{Head, SnapshotReader};
pub use writer::save;

use trace::TraceHash;

const MAGIC: &[u8; 8] = b"AVCSNAP\n";
const VERSION: u16 = 3;
/// RAM is stored in pieces of this size.
const CHUNK: usize = 64 << 10;
/// The index that stands for the end.
const END: u32 = u32::MAX;
/// More RAM or state than this is taken for damage.
const MOST_MEMORY: u64 = 1 << 42;
const MOST_STATE: u64 = 1 << 32;

/// What a machine was built from: two machines with the same digest understand each other's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigurationDigest(pub u64);

impl std::fmt::Display for ConfigurationDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Why a snapshot cannot be written or read. Offsets are those in the file.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("{file}: cannot write the snapshot")]
    Output { file: String, source: std::io::Error },
    #[error("{file}: cannot read the snapshot at offset {offset:#x}")]
    Input { file: String, offset: u64, source: std::io::Error },
    #[error("{file}: not a snapshot: starts with {found:02x?}, a snapshot with \"AVCSNAP\"")]
    NotASnapshot { file: String, found: [u8; 8] },
    #[error("{file}: snapshot version {found}, this program reads version {VERSION}")]
    Version { file: String, found: u16 },
    #[error(
        "{file}: taken from a machine with configuration {found}, this machine has {expected}; \
         restore with the options that the snapshot was taken with"
    )]
    Configuration { file: String, found: ConfigurationDigest, expected: ConfigurationDigest },
    #[error("{file}: truncated inside {what}, which starts at offset {offset:#x}")]
    Truncated { file: String, what: &'static str, offset: u64 },
    #[error("{file}: {what} at offset {offset:#x} is damaged: {why}")]
    Damaged { file: String, what: &'static str, offset: u64, why: String },
    #[error("{file}: the state cannot be used: {why}")]
    State { file: String, why: String },
}

/// A hash of bytes, against damage: eight at a time, the rest and the length last.
pub fn checksum(bytes: &[u8]) -> u64 {
    let mut hash = TraceHash::default();
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().for_each(|word| hash.word(u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    hash.word(u64::from_le_bytes(last));
    hash.word(bytes.len() as u64);
    hash.value()
}

#[cfg(test)]
mod tests;

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

pub use machine::{RestoreError, SavedMachine};
pub use reader::{Head, SnapshotReader};
pub use writer::save;

use trace::TraceHash;

const MAGIC: &[u8; 8] = b"AVCSNAP\n";
const VERSION: u16 = 15;
/// RAM is stored in pieces of this size.
const CHUNK: usize = 64 << 10;
/// The index that stands for the end.
const END: u32 = u32::MAX;
/// More RAM or state than this is taken for damage.
const MOST_MEMORY: u64 = 1 << 42;
const MOST_READ_ONLY: u64 = 1 << 26;
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
    /// Writing failed.
    #[error("{file}: cannot write the snapshot")]
    Output {
        /// Its name, as given.
        file: String,
        /// The host's reason.
        source: std::io::Error,
    },
    /// Reading failed.
    #[error("{file}: cannot read the snapshot at offset {offset:#x}")]
    Input {
        /// Its name, as given.
        file: String,
        /// How far reading came.
        offset: u64,
        /// The host's reason.
        source: std::io::Error,
    },
    /// It begins with something else.
    #[error("{file}: not a snapshot: starts with {found:02x?}, a snapshot with \"AVCSNAP\"")]
    NotASnapshot {
        /// Its name, as given.
        file: String,
        /// Its first bytes.
        found: [u8; 8],
    },
    /// It was written by a program of another format.
    #[error("{file}: snapshot version {found}, this program reads version {VERSION}")]
    Version {
        /// Its name, as given.
        file: String,
        /// The format's number.
        found: u16,
    },
    /// It is of a machine that was built otherwise.
    #[error(
        "{file}: taken from a machine with configuration {found}, this machine has {expected}; \
         restore with the options that the snapshot was taken with"
    )]
    Configuration {
        /// Its name, as given.
        file: String,
        /// What the file says.
        found: ConfigurationDigest,
        /// That of the machine to restore into.
        expected: ConfigurationDigest,
    },
    /// It ends too early.
    #[error("{file}: truncated inside {what}, which starts at offset {offset:#x}")]
    Truncated {
        /// Its name, as given.
        file: String,
        /// The part that is not whole.
        what: &'static str,
        /// Where the part begins.
        offset: u64,
    },
    /// A part does not fit its hash, or says what cannot be.
    #[error("{file}: {what} at offset {offset:#x} is damaged: {why}")]
    Damaged {
        /// Its name, as given.
        file: String,
        /// The part.
        what: &'static str,
        /// Where the part begins.
        offset: u64,
        /// What is wrong with it.
        why: String,
    },
    /// A part of what the guest goes on with is not the machine's.
    #[error(
        "{file}: a machine whose guest has mounted a shared folder cannot be saved: what is open \
         there is no part of it"
    )]
    Elsewhere {
        /// Its name, as given.
        file: String,
    },
    /// The state cannot be encoded, or is not one of such a machine.
    #[error("{file}: the state cannot be used: {why}")]
    State {
        /// Its name, as given.
        file: String,
        /// What is wrong with it.
        why: String,
    },
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

//! Traces as files: compact, readable up to where writing broke off, hostile bytes refused.
//!
//! A file is a head (magic, version, notes), blocks, and an end with the number of records and
//! their hash. A block is a letter, two lengths, a hash and compressed records; what a record
//! refers back to (last time, last processor, last address of a field) starts over in each block.
//! Numbers are little-endian base-128 with a continuation bit; differences are zigzag-coded.

mod block;
mod reader;
mod writer;

pub use reader::{ReadError, Reader};
pub use writer::{Summary, Writer};

const MAGIC: &[u8; 8] = b"AVCTRACE";
/// Version 2 has remarks ([`crate::Event::is_remark`]), which no hash counts; version 3 what
/// happens to a virtual APIC, and lines and messages of devices. Older files have none of either.
const VERSION: u16 = 3;
const FIRST_VERSION: u16 = 1;
const BLOCK: u8 = b'B';
const END: u8 = b'E';

/// A block is closed when its records take this much, so one lies between this and one record more.
const BLOCK_SIZE: usize = 64 << 10;
/// No block is larger, packed or unpacked.
const LARGEST_BLOCK: u64 = 1 << 20;
/// Limits of the notes.
const MOST_NOTES: u64 = 64;
const LONGEST_NOTE: u64 = 4096;

/// A key and a value about the run: CPU model, seed, command line.
pub type Note = (String, String);

/// FNV-1a, for damage rather than for identity.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

#[cfg(test)]
mod tests;

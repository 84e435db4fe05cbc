//! Writing a snapshot.

use super::{CHUNK, ConfigurationDigest, END, MAGIC, SnapshotError, VERSION, checksum};
use arch::address::PAGE_SIZE;
use bus::GuestMemory;
use serde::Serialize;
use std::io::Write;
use trace::TraceHash;

/// Writes state and memory. `file` is the name for messages.
pub fn save<S: Serialize>(
    file: &str,
    output: &mut impl Write,
    configuration: ConfigurationDigest,
    state: &S,
    memory: &GuestMemory,
) -> Result<(), SnapshotError> {
    let failed = |source| SnapshotError::Output { file: file.into(), source };
    let state = postcard::to_allocvec(state)
        .map_err(|error| SnapshotError::State { file: file.into(), why: error.to_string() })?;
    output.write_all(&head(configuration, memory, &state)).map_err(failed)?;
    output.write_all(&state).map_err(failed)?;
    write_memory(output, &memory.ram).map_err(failed)?;
    output.flush().map_err(failed)
}

fn head(configuration: ConfigurationDigest, memory: &GuestMemory, state: &[u8]) -> Vec<u8> {
    let layout = memory.layout();
    let mut head = Vec::from(MAGIC);
    head.extend(VERSION.to_le_bytes());
    head.extend([0; 2]);
    head.extend(((layout.read_only / PAGE_SIZE) as u32).to_le_bytes());
    let words = [configuration.0, layout.ram(), state.len() as u64, checksum(state)];
    head.extend(words.into_iter().flat_map(u64::to_le_bytes));
    head.extend(checksum(&head).to_le_bytes());
    head
}

/// Every chunk that is not zero, in order, then the end.
fn write_memory(output: &mut impl Write, ram: &[u8]) -> std::io::Result<()> {
    let mut compressor = zstd::bulk::Compressor::new(1)?;
    let mut packed = vec![0; zstd::zstd_safe::compress_bound(CHUNK)];
    let mut all = TraceHash::default();
    let mut count = 0;
    for (index, chunk) in ram.chunks(CHUNK).enumerate() {
        if is_zero(chunk) {
            continue;
        }
        let size = compressor.compress_to_buffer(chunk, &mut packed)?;
        // What does not get smaller is stored as it is.
        let stored = if size < chunk.len() { &packed[..size] } else { chunk };
        let hash = checksum(stored);
        write_entry(output, index as u32, stored.len() as u32, hash)?;
        output.write_all(stored)?;
        all.word(hash);
        count += 1;
    }
    write_entry(output, END, count, all.value())
}

fn write_entry(output: &mut impl Write, index: u32, size: u32, hash: u64) -> std::io::Result<()> {
    let mut entry = [0; 16];
    entry[..4].copy_from_slice(&index.to_le_bytes());
    entry[4..8].copy_from_slice(&size.to_le_bytes());
    entry[8..].copy_from_slice(&hash.to_le_bytes());
    output.write_all(&entry)
}

fn is_zero(bytes: &[u8]) -> bool {
    let (blocks, rest) = bytes.as_chunks::<64>();
    blocks.iter().all(|block| *block == [0; 64]) && rest.iter().all(|byte| *byte == 0)
}

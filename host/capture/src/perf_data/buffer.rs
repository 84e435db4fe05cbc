//! Positioned reads into one small buffer per thread.

use crate::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Small enough to stay in a core's second-level cache, large enough for a read to be cheap, and
/// larger than the largest record (64 KiB).
const BUFFER: usize = 256 << 10;
/// At least the largest record, of which all except its last byte may be kept.
pub const KEPT: usize = 64 << 10;
/// A page, and so also a line of every cache.
const ALIGNED: usize = 4 << 10;

/// Where bytes are read to. The kernel copies to aligned places a fifth faster than to others, so
/// what is kept of the bytes before lies in front of one.
pub struct Buffer {
    bytes: Vec<u8>,
    /// Of the place that is read to.
    start: usize,
}

impl Buffer {
    pub fn new() -> Self {
        let bytes = vec![0; KEPT + ALIGNED + BUFFER];
        let start = KEPT + bytes[KEPT..].as_ptr().align_offset(ALIGNED).min(ALIGNED);
        Self { bytes, start }
    }

    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + BUFFER]
    }

    /// What was kept, and as much as was read.
    pub fn filled(&self, kept: usize, read: usize) -> &[u8] {
        &self.bytes[self.start - kept..self.start + read]
    }

    /// Keeps the last bytes of what was kept and read before.
    pub fn keep(&mut self, read: usize, kept: usize) {
        let end = self.start + read;
        self.bytes.copy_within(end - kept..end, self.start - kept);
    }
}

/// Reads until the buffer is full or the records end; returns how much.
pub fn read_up_to(file: &File, buffer: &mut [u8], at: u64, end: u64) -> Result<usize, Error> {
    let wanted = buffer.len().min(usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX));
    let mut filled = 0;
    while filled < wanted {
        match file.read_at(&mut buffer[filled..wanted], at + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}

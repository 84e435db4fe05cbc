//! How a recording is to be read: by how many, how much at a time, and until when.

use std::io::{ErrorKind, Read};
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Many chunks of a long recording, so that no thread waits for another at the end and little is
/// kept of those that are done early; a short one is still cut in two.
const CHUNKS: (u64, u64) = (2 << 20, 8 << 20);

/// As many of these bytes as the input still has; how many.
pub(crate) fn fill(input: &mut impl Read, bytes: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match input.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// How a file is to be read.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// How many read side by side.
    pub threads: NonZero<usize>,
    /// Raised from outside to end early; what was read by then is delivered.
    pub stop: &'a AtomicBool,
    /// Bytes read so far, for the display of progress.
    pub progress: &'a AtomicU64,
    /// Bytes of the smallest and the largest chunk.
    pub chunks: (u64, u64),
}

impl<'a> Reading<'a> {
    /// With a thread per processor that this process may use.
    pub fn new(stop: &'a AtomicBool, progress: &'a AtomicU64) -> Self {
        let threads = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        Self { threads, stop, progress, chunks: CHUNKS }
    }
}

//! A file in chunks, read and decoded by several threads at once.
//!
//! Records have no marks between them, so a chunk begins at a guess: the first sample from which a
//! chain of plausible records leads on. The guess is verified: the walk from before must arrive
//! exactly there. If it does not, everything is thrown away and the file is read by one thread from
//! front to back, so that what is delivered is always the same as for such a walk.

use super::buffer::{Buffer, KEPT, read_up_to};
use super::header::Header;
use super::joiner::{Joiner, Walked};
use super::record::Break;
use crate::sink::Stretched;
use crate::{Error, Reading};
use std::fs::File;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;

/// Bytes in which the start of a chunk is looked for: the chain of usual records at first, then
/// more than the largest record.
const SEARCH: [usize; 2] = [8 << 10, 72 << 10];
/// Bytes behind a chunk's limit that are read with it, for the end of its last record: a usual
/// one's.
const BEHIND: u64 = 4 << 10;
const CHUNKS_PER_THREAD: u64 = 8;
/// A record's size has sixteen bits.
const LARGEST_RECORD: u64 = 64 << 10;
/// Records a guessed start must lead through.
const CHAIN: usize = 24;

/// All sinks and what the reader has to say about the file's end.
pub type Folded<S> = (Vec<S>, Vec<String>);

/// Reads all records: `make` gives a sink for each thread, `join` receives the edges of each chunk
/// in the order of the file.
///
/// `None` if a guess was wrong: what was delivered is not true, and the reading is to be done once
/// more with one thread.
pub fn fold<S: Stretched + Send>(
    file: &File,
    header: &Header,
    reading: &Reading<'_>,
    make: &(impl Fn() -> S + Sync),
    join: impl FnMut(S::Edges) + Send,
) -> Result<Option<Folded<S>>, Error> {
    let data = &header.data;
    let length = data.end - data.start;
    let wanted = length / (reading.threads.get() as u64 * CHUNKS_PER_THREAD);
    let size = wanted.min(reading.chunks.1).max(reading.chunks.0).max(8).next_multiple_of(8);
    let count = length.div_ceil(size).max(1) as usize;
    let threads = reading.threads.get().min(count);
    let joiner = Mutex::new(Joiner {
        join,
        between: |start: u64, end: u64| {
            let mut sink = make();
            let mut buffer = Buffer::new();
            let walked = walk(file, header, start, end, reading, &mut sink, &mut buffer)?;
            Ok((walked, sink))
        },
        spare: Vec::new(),
        next: 0,
        expected: data.start,
        waiting: (0..count).map(|_| None).collect(),
        walked: 0,
        is_alone: threads == 1,
        is_misled: false,
        ended: None,
        failure: None,
    });
    let next = AtomicUsize::new(0);
    let work = || {
        let mut buffer = Buffer::new();
        let mut sink = make();
        let mut begin = data.start;
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count || reading.stop.load(Ordering::Relaxed) {
                return sink;
            }
            let guess = data.start + index as u64 * size;
            let limit = (guess + size).min(data.end);
            let start = match index {
                _ if threads == 1 => Ok(begin),
                0 => Ok(guess),
                _ => find_start(file, header, guess, limit, &mut buffer),
            };
            let walked = start.and_then(|start| {
                walk(file, header, start, limit, reading, &mut sink, &mut buffer)
            });
            if let Ok(walked) = &walked {
                begin = walked.end;
            }
            let mut joiner = joiner.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if !joiner.arrive(index, walked, reading.stop.load(Ordering::Relaxed)) {
                return sink;
            }
        }
    };
    let sinks = std::thread::scope(|scope| {
        // Those that the system does not give are done without.
        let begin = |_| Builder::new().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..threads).filter_map(begin).collect();
        let mut sinks = vec![work()];
        for other in others {
            match other.join() {
                Ok(sink) => sinks.push(sink),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        sinks
    });
    let mut joiner = joiner.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    if joiner.is_misled {
        return Ok(None);
    }
    let warnings = joiner.warnings(header, reading)?;
    Ok(Some((sinks.into_iter().chain(joiner.spare).collect(), warnings)))
}

/// The first place from a guess on that looks like the start of a record.
fn find_start(
    file: &File,
    header: &Header,
    guess: u64,
    limit: u64,
    buffer: &mut Buffer,
) -> Result<u64, Error> {
    for wanted in SEARCH {
        let room = &mut buffer.room()[..wanted];
        let length = read_up_to(file, room, guess, header.data.end)?;
        let bytes = &room[..length];
        // Chunks begin at multiples of eight from the first record, and so do records.
        let place = (0..bytes.len())
            .step_by(8)
            .find(|at| header.layouts.looks_like_records(bytes, *at, CHAIN));
        // A chain that the end of the bytes cuts off proves little.
        let is_near = |at: &usize| *at < wanted / 2;
        if let Some(at) = place.filter(|at| is_near(at) || wanted == SEARCH[1]) {
            return Ok(guess + at as u64);
        }
    }
    Ok(limit)
}

fn walk<S: Stretched>(
    file: &File,
    header: &Header,
    start: u64,
    limit: u64,
    reading: &Reading<'_>,
    sink: &mut S,
    buffer: &mut Buffer,
) -> Result<Walked<S::Edges>, Error> {
    let mut at = start;
    // Bytes of a record that began in the buffer before and are kept in front of it.
    let mut kept = 0;
    let mut stopped = None;
    while at < limit && stopped.is_none() && !reading.stop.load(Ordering::Relaxed) {
        // Not further than the chunk and the end of its last record, more being the next chunk's.
        let next = at + kept as u64;
        let behind = if next < limit { BEHIND } else { LARGEST_RECORD };
        let end = header.data.end.min(limit.saturating_add(behind));
        let read = read_up_to(file, buffer.room(), next, end)?;
        let bytes = buffer.filled(kept, read);
        let filled = bytes.len();
        let room = usize::try_from(limit - at).unwrap_or(usize::MAX);
        let walk = header.layouts.walk(bytes, room, sink);
        reading.progress.fetch_add(read as u64, Ordering::Relaxed);
        match walk.stopped {
            // More of the record is to come, unless nothing was read or nothing was consumed.
            Some(Break::Partial) if read > 0 && filled - walk.at.min(filled) <= KEPT => {
                kept = filled - walk.at.min(filled);
                buffer.keep(read, kept);
            }
            // The file ends before its header says so.
            None if filled == 0 => stopped = Some(Break::Partial),
            None => kept = 0,
            other => stopped = other,
        }
        at += walk.at as u64;
    }
    Ok(Walked { start, end: at, stopped, edges: sink.cut() })
}

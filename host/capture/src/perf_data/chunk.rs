//! A file in chunks, read and decoded by several threads at once.
//!
//! Records have no marks between them, so a chunk begins at a guess: the first place from which a
//! chain of plausible records leads on. The guess is verified: the walk through the chunk before
//! must end exactly there, or the chunk is walked again from where that walk did end. What is
//! delivered is therefore the same as for a walk from front to back.

use super::header::Header;
use super::layout::Layouts;
use super::record::Break;
use crate::Error;
use crate::sink::Sink;
use std::fs::File;
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Small enough to stay in a core's second-level cache, large enough for a read to be cheap, and
/// larger than the largest record (64 KiB).
const BUFFER: usize = 256 << 10;
/// Chunks are not smaller than this: finding a start costs a few microseconds.
const SMALLEST_CHUNK: u64 = 4 << 20;
/// Chunks per thread, so that one that is held up does not hold up all.
const CHUNKS_PER_THREAD: u64 = 8;
/// Records a guessed start must lead through.
const CHAIN: usize = 24;

/// How a file is to be read.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    pub threads: NonZero<usize>,
    /// Raised from outside to end early; what was read by then is delivered.
    pub stop: &'a AtomicBool,
    /// Bytes read so far, for whoever shows progress.
    pub progress: &'a AtomicU64,
    pub smallest_chunk: u64,
    /// For sinks that keep every event, so that few are kept at a time.
    pub largest_chunk: u64,
}

impl<'a> Reading<'a> {
    pub fn new(stop: &'a AtomicBool, progress: &'a AtomicU64) -> Self {
        let threads = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        Self { threads, stop, progress, smallest_chunk: SMALLEST_CHUNK, largest_chunk: u64::MAX }
    }
}

/// A walked chunk: where it really began, where the next one must, and what was delivered.
struct Walked<S> {
    start: u64,
    end: u64,
    stopped: Option<Break>,
    sink: S,
}

/// Reads all records: `make` gives a sink for each chunk, `join` receives the filled sinks in the
/// order of the file. Returns what the reader has to say about the file's end.
pub fn fold<S: Sink + Send>(
    file: &File,
    header: &Header,
    reading: &Reading<'_>,
    make: &(impl Fn() -> S + Sync),
    join: impl FnMut(S) + Send,
) -> Result<Vec<String>, Error> {
    let data = &header.data;
    let length = data.end - data.start;
    let wanted = length / (reading.threads.get() as u64 * CHUNKS_PER_THREAD).max(1);
    let size = wanted.max(reading.smallest_chunk).min(reading.largest_chunk).next_multiple_of(8);
    let count = length.div_ceil(size).max(1) as usize;
    let bounds = |index: usize| {
        let start = data.start + index as u64 * size;
        (start, (start + size).min(data.end))
    };
    let joiner = Mutex::new(Joiner {
        header,
        file,
        reading,
        make,
        join,
        next: 0,
        expected: data.start,
        waiting: (0..count).map(|_| None).collect(),
        limits: (0..count).map(|index| bounds(index).1).collect(),
        ended: None,
        failure: None,
    });
    let next = AtomicUsize::new(0);
    let work = || {
        let mut buffer = vec![0; BUFFER];
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count || reading.stop.load(Ordering::Relaxed) {
                return;
            }
            let (guess, limit) = bounds(index);
            let walked = find_start(file, header, guess, limit, index == 0, &mut buffer)
                .and_then(|start| walk(file, header, start, limit, reading, make(), &mut buffer));
            let mut joiner = joiner.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if !joiner.arrive(index, walked, &mut buffer) {
                return;
            }
        }
    };
    if count == 1 || reading.threads.get() == 1 {
        work();
    } else {
        std::thread::scope(|scope| {
            for _ in 1..reading.threads.get().min(count) {
                scope.spawn(work);
            }
            work();
        });
    }
    let joiner = joiner.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    joiner.finish()
}

/// The first place from a guess on that looks like the start of a record.
fn find_start(
    file: &File,
    header: &Header,
    guess: u64,
    limit: u64,
    is_first: bool,
    buffer: &mut [u8],
) -> Result<u64, Error> {
    if is_first {
        return Ok(guess);
    }
    // Chunks begin at multiples of eight from the first record, and so do records.
    let length = read_up_to(file, buffer, guess, header.data.end)?;
    let bytes = &buffer[..length];
    let place =
        (0..bytes.len()).step_by(8).find(|at| header.layouts.looks_like_records(bytes, *at, CHAIN));
    Ok(place.map_or(limit, |at| guess + at as u64))
}

fn walk<S: Sink>(
    file: &File,
    header: &Header,
    start: u64,
    limit: u64,
    reading: &Reading<'_>,
    mut sink: S,
    buffer: &mut [u8],
) -> Result<Walked<S>, Error> {
    let mut at = start;
    // Bytes of a record that began in the buffer before and are kept at its front.
    let mut kept = 0;
    let mut stopped = None;
    while at < limit && stopped.is_none() && !reading.stop.load(Ordering::Relaxed) {
        let read = read_up_to(file, &mut buffer[kept..], at + kept as u64, header.data.end)?;
        let filled = kept + read;
        let room = usize::try_from(limit - at).unwrap_or(usize::MAX);
        let walk = header.layouts.walk(&buffer[..filled], room, &mut sink);
        reading.progress.fetch_add(read as u64, Ordering::Relaxed);
        match walk.stopped {
            // More of the record is to come, unless nothing was read or nothing was consumed.
            Some(Break::Partial) if read > 0 && (walk.at > 0 || filled < buffer.len()) => {
                buffer.copy_within(walk.at.min(filled)..filled, 0);
                kept = filled - walk.at.min(filled);
            }
            // The file ends before its header says so.
            None if filled == 0 => stopped = Some(Break::Partial),
            None => kept = 0,
            other => stopped = other,
        }
        at += walk.at as u64;
    }
    Ok(Walked { start, end: at, stopped, sink })
}

/// Reads until the buffer is full or the records end; returns how much.
fn read_up_to(file: &File, buffer: &mut [u8], at: u64, end: u64) -> Result<usize, Error> {
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

/// Puts chunks back into the order of the file and checks that they meet.
struct Joiner<'a, S, M, J> {
    header: &'a Header,
    file: &'a File,
    reading: &'a Reading<'a>,
    make: &'a M,
    join: J,
    next: usize,
    /// Where the next chunk must begin.
    expected: u64,
    waiting: Vec<Option<Walked<S>>>,
    limits: Vec<u64>,
    ended: Option<(u64, Break)>,
    failure: Option<Error>,
}

impl<S: Sink, M: Fn() -> S, J: FnMut(S)> Joiner<'_, S, M, J> {
    /// Takes a chunk; returns whether more are wanted.
    fn arrive(
        &mut self,
        index: usize,
        walked: Result<Walked<S>, Error>,
        buffer: &mut [u8],
    ) -> bool {
        match walked {
            Ok(walked) => self.waiting[index] = Some(walked),
            Err(error) => self.failure = Some(error),
        }
        while self.failure.is_none() && self.ended.is_none() {
            let Some(mut walked) = self.waiting.get_mut(self.next).and_then(Option::take) else {
                break;
            };
            let limit = self.limits[self.next];
            if walked.start != self.expected {
                if self.expected >= limit {
                    // The record before reaches over this whole chunk.
                    self.next += 1;
                    continue;
                }
                let sink = (self.make)();
                let again =
                    walk(self.file, self.header, self.expected, limit, self.reading, sink, buffer);
                match again {
                    Ok(again) => walked = again,
                    Err(error) => {
                        self.failure = Some(error);
                        break;
                    }
                }
            }
            self.expected = walked.end;
            self.ended = walked.stopped.map(|why| (walked.end, why));
            (self.join)(walked.sink);
            self.next += 1;
        }
        self.failure.is_none() && self.ended.is_none()
    }

    fn finish(self) -> Result<Vec<String>, Error> {
        if let Some(error) = self.failure {
            return Err(error);
        }
        let end = self.header.data.end;
        let rest = |at: u64| end.saturating_sub(at);
        Ok(match self.ended {
            Some((at, Break::Partial)) => vec![format!(
                "the last record, at offset {at:#x}, breaks off: its {} bytes are left out",
                rest(at)
            )],
            Some((at, Break::Damaged)) => vec![format!(
                "the record at offset {at:#x} is damaged: {} bytes from there on are left out",
                rest(at)
            )],
            Some((at, Break::Compressed)) => vec![format!(
                "a compressed record at offset {at:#x} in a file that does not announce any: {} \
                 bytes are left out",
                rest(at)
            )],
            None if self.reading.stop.load(Ordering::Relaxed) && self.expected < end => {
                vec![format!("stopped on request: {} bytes were not read", rest(self.expected))]
            }
            None => Vec::new(),
        })
    }
}

impl Layouts {
    /// Whether the first samples fit what was assumed about a recording without descriptions.
    pub fn check_assumption(&self, bytes: &[u8]) -> Result<(), Error> {
        let mut check = IsaCheck::default();
        self.walk(bytes, bytes.len(), &mut check);
        if check.exits == 0 || check.unknown > check.exits / 10 {
            return Err(Error::Unsupported(
                "the recording carries no event descriptions and its samples do not look like \
                 those of perf kvm stat"
                    .into(),
            ));
        }
        Ok(())
    }
}

#[derive(Default)]
struct IsaCheck {
    exits: u64,
    unknown: u64,
}

impl Sink for IsaCheck {
    fn event(&mut self, _: &trace::kvm::Stamp, event: &trace::kvm::KvmEvent) {
        if let trace::kvm::KvmEvent::Exit(exit) = event {
            self.exits += 1;
            self.unknown += u64::from(trace::exit_reason::Isa::from_number(exit.isa).is_none());
        }
    }

    fn lost(&mut self, _: u32, _: u64, _: u64) {}
}

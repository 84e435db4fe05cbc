//! A file in chunks, read and decoded by several threads at once.
//!
//! Records have no marks between them, so a chunk begins at a guess: the first sample from which a
//! chain of plausible records leads on. The guess is verified: the walk from before must arrive
//! exactly there. If it does not, everything is thrown away and the file is read by one thread from
//! front to back, so that what is delivered is always the same as for such a walk.

use super::header::Header;
use super::layout::Layouts;
use super::record::Break;
use crate::Error;
use crate::sink::{Sink, Stretched};
use std::fs::File;
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Small enough to stay in a core's second-level cache, large enough for a read to be cheap, and
/// larger than the largest record (64 KiB).
const BUFFER: usize = 256 << 10;
/// Bytes in which the start of a chunk is looked for: more than the largest record.
const SEARCH: usize = 72 << 10;
/// Many chunks of a long recording, so that no thread waits for another at the end and little is
/// kept of those that are done early; a short one is still cut in two.
const CHUNKS: (u64, u64) = (2 << 20, 8 << 20);
const CHUNKS_PER_THREAD: u64 = 8;
/// A record's size has sixteen bits.
const LARGEST_RECORD: u64 = 64 << 10;
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
    /// Bytes of the smallest and the largest chunk.
    pub chunks: (u64, u64),
}

impl<'a> Reading<'a> {
    pub fn new(stop: &'a AtomicBool, progress: &'a AtomicU64) -> Self {
        let threads = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        Self { threads, stop, progress, chunks: CHUNKS }
    }
}

/// A walked chunk: where it really began, where the next one must, and what borders it.
struct Walked<E> {
    start: u64,
    end: u64,
    stopped: Option<Break>,
    edges: E,
}

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
            let mut buffer = vec![0; BUFFER];
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
        let mut buffer = vec![0; BUFFER];
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
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
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
    buffer: &mut [u8],
) -> Result<u64, Error> {
    // Chunks begin at multiples of eight from the first record, and so do records.
    let length = read_up_to(file, &mut buffer[..SEARCH], guess, header.data.end)?;
    let bytes = &buffer[..length];
    let place =
        (0..bytes.len()).step_by(8).find(|at| header.layouts.looks_like_records(bytes, *at, CHAIN));
    Ok(place.map_or(limit, |at| guess + at as u64))
}

fn walk<S: Stretched>(
    file: &File,
    header: &Header,
    start: u64,
    limit: u64,
    reading: &Reading<'_>,
    sink: &mut S,
    buffer: &mut [u8],
) -> Result<Walked<S::Edges>, Error> {
    let mut at = start;
    // Bytes of a record that began in the buffer before and are kept at its front.
    let mut kept = 0;
    let mut stopped = None;
    while at < limit && stopped.is_none() && !reading.stop.load(Ordering::Relaxed) {
        // Not further than the chunk and one record more, which is the next chunk's to read.
        let end = header.data.end.min(limit.saturating_add(LARGEST_RECORD));
        let read = read_up_to(file, &mut buffer[kept..], at + kept as u64, end)?;
        let filled = kept + read;
        let room = usize::try_from(limit - at).unwrap_or(usize::MAX);
        let walk = header.layouts.walk(&buffer[..filled], room, sink);
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
    Ok(Walked { start, end: at, stopped, edges: sink.cut() })
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
struct Joiner<S: Stretched, W, J> {
    join: J,
    /// Walks what lies between two places.
    between: W,
    /// What was delivered by such walks.
    spare: Vec<S>,
    next: usize,
    /// Where the next chunk must begin.
    expected: u64,
    waiting: Vec<Option<Walked<S::Edges>>>,
    /// Bytes of all chunks that have arrived.
    walked: u64,
    /// Nobody else reads on meanwhile.
    is_alone: bool,
    is_misled: bool,
    ended: Option<(u64, Break)>,
    failure: Option<Error>,
}

impl<S, W, J> Joiner<S, W, J>
where
    S: Stretched,
    W: Fn(u64, u64) -> Result<(Walked<S::Edges>, S), Error>,
    J: FnMut(S::Edges),
{
    /// Takes a chunk; returns whether more are wanted.
    fn arrive(
        &mut self,
        index: usize,
        walked: Result<Walked<S::Edges>, Error>,
        stop: bool,
    ) -> bool {
        match walked {
            Ok(walked) => {
                self.walked += walked.end - walked.start;
                self.waiting[index] = Some(walked);
            }
            Err(error) => self.failure = Some(error),
        }
        while self.failure.is_none() && self.ended.is_none() && !self.is_misled {
            let Some(walked) = self.waiting.get_mut(self.next).and_then(Option::take) else {
                break;
            };
            if walked.start != self.expected {
                // A reading that was stopped has gaps, over which nothing is to be joined.
                if stop || !self.walk_between(walked.start) {
                    self.is_misled = !stop;
                    break;
                }
            }
            self.expected = walked.end;
            self.ended = walked.stopped.map(|why| (walked.end, why));
            (self.join)(walked.edges);
            self.next += 1;
            // What comes after a break does not count, but may have been read by another thread.
            let is_last = self.next == self.waiting.len();
            self.is_misled = self.ended.is_some() && !is_last && !self.is_alone;
        }
        self.failure.is_none() && self.ended.is_none() && !self.is_misled
    }

    /// Takes the records in front of the sample that a chunk began with; returns whether they end
    /// where it begins.
    fn walk_between(&mut self, start: u64) -> bool {
        if start < self.expected {
            return false;
        }
        match (self.between)(self.expected, start) {
            Ok((walked, sink)) => {
                let has_met = walked.end == start && walked.stopped.is_none();
                self.walked += walked.end - walked.start;
                (self.join)(walked.edges);
                self.spare.push(sink);
                has_met
            }
            Err(error) => {
                self.failure = Some(error);
                false
            }
        }
    }

    fn warnings(&mut self, header: &Header, reading: &Reading<'_>) -> Result<Vec<String>, Error> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let end = header.data.end;
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
            None if reading.stop.load(Ordering::Relaxed) && self.expected < end => {
                let left = (end - header.data.start).saturating_sub(self.walked);
                vec![format!("stopped on request: {left} bytes were not read")]
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

//! Several streams of one recording, each in the order of time, read by several threads and kept
//! in parallel.
//!
//! A stream is read a stretch at a time, and next comes always the one that begins first. So
//! whatever is earlier than every stretch that is under way is complete, although no thread waits
//! for another and no event is put in order: that is left to who joins the edges of stretches.

use crate::sink::{Sink, Stretched};
use crate::{Error, Reading};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread::Builder;

/// What is said of a recording that was not read to its end because nobody wanted it.
pub const STOPPED: &str = "stopped on request: the rest was not read";

/// Bytes of the smallest and the largest stretch: what one read brings, so that little waits.
const STRETCH: (u64, u64) = (64 << 10, 256 << 10);
const STRETCHES_PER_THREAD: u64 = 8;

/// Bytes a stretch should have, of a recording of a length.
pub fn stretch_of(reading: &Reading<'_>, length: u64) -> u64 {
    let wanted = length / (reading.threads.get() as u64 * STRETCHES_PER_THREAD);
    wanted.clamp(STRETCH.0.min(reading.chunks.0), STRETCH.1.min(reading.chunks.1.max(1)))
}

/// What is left of a stream, beginning with the stretch that is to be read next.
pub trait Stream: Send + Sized {
    /// What a thread reads with, stretch after stretch.
    type Buffers: Default;

    /// Nothing that is left is earlier.
    fn begins_ns(&self) -> u64;

    /// Cuts off what follows the next stretch, where that can be told without reading it.
    fn split(&mut self, buffers: &mut Self::Buffers) -> Result<Option<Self>, Error>;

    /// Delivers the next stretch and returns what is left then.
    fn read<S: Sink>(
        self,
        buffers: &mut Self::Buffers,
        sink: &mut S,
    ) -> Result<Option<Self>, Error>;
}

/// What is wrong with streams: of each the first thing, by its place in the stream.
#[derive(Debug, Default)]
pub struct Complaints(Mutex<BTreeMap<usize, (u64, String)>>);

impl Complaints {
    /// Notes what is wrong `at` a place of a stream; of one stream the first place is kept.
    pub fn add(&self, stream: usize, at: u64, what: String) {
        let mut complaints = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let first = complaints.entry(stream).or_insert_with(|| (at, what.clone()));
        if at < first.0 {
            *first = (at, what);
        }
    }

    /// In the order of streams; before them, that reading was stopped if it was.
    pub fn into_warnings(self, is_stopped: bool) -> Vec<String> {
        let complaints = self.0.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        let stopped = is_stopped.then(|| STOPPED.to_owned());
        stopped.into_iter().chain(complaints.into_values().map(|(_, what)| what)).collect()
    }
}

/// A stream in the order of what begins first; of those that begin at once, the first.
struct Next<T> {
    begins_ns: u64,
    index: usize,
    stream: T,
}

impl<T> PartialEq for Next<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.begins_ns, self.index) == (other.begins_ns, other.index)
    }
}

impl<T> Eq for Next<T> {}

impl<T> PartialOrd for Next<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Next<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.begins_ns, self.index).cmp(&(other.begins_ns, other.index))
    }
}

/// A stretch as it was taken: its number, and up to when everything was taken before it.
struct Taken<T> {
    number: u64,
    settled_ns: u64,
    next: Next<T>,
}

struct Queue<T, E, J> {
    waiting: BinaryHeap<Reverse<Next<T>>>,
    /// When the stretch of each thread begins.
    under_way: Vec<Option<u64>>,
    taken: u64,
    /// Stretches that were read before one that had been taken earlier.
    done: BTreeMap<u64, (E, u64)>,
    joined: u64,
    join: J,
    failure: Option<Error>,
}

impl<T: Stream, E, J: FnMut(E, u64)> Queue<T, E, J> {
    fn put(&mut self, index: usize, stream: Option<T>) {
        self.waiting.extend(stream.map(|stream| {
            let begins_ns = stream.begins_ns();
            Reverse(Next { begins_ns, index, stream })
        }));
    }

    fn take(&mut self, thread: usize, buffers: &mut T::Buffers) -> Option<Taken<T>> {
        let Reverse(mut next) = self.waiting.pop()?;
        match next.stream.split(buffers) {
            Ok(rest) => self.put(next.index, rest),
            Err(error) => self.failure = Some(error),
        }
        self.under_way[thread] = Some(next.begins_ns);
        // What is left of a stretch under way is not earlier than that.
        let settled_ns = self.under_way.iter().flatten().min().copied().unwrap_or(0);
        self.taken += 1;
        Some(Taken { number: self.taken - 1, settled_ns, next })
    }

    fn arrive(&mut self, number: u64, edges: E, settled_ns: u64) {
        self.done.insert(number, (edges, settled_ns));
        while let Some((edges, settled_ns)) = self.done.remove(&self.joined) {
            (self.join)(edges, settled_ns);
            self.joined += 1;
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Reads all streams: `make` gives a sink for each thread; `join` receives the edges of each
/// stretch in the order they were taken, and before which time nothing more will come.
pub fn fold<T: Stream, S: Stretched + Send>(
    streams: Vec<T>,
    reading: &Reading<'_>,
    make: &(impl Fn() -> S + Sync),
    join: impl FnMut(S::Edges, u64) + Send,
) -> Result<Vec<S>, Error> {
    let threads = reading.threads.get();
    let mut queue = Queue {
        waiting: BinaryHeap::new(),
        under_way: vec![None; threads],
        taken: 0,
        done: BTreeMap::new(),
        joined: 0,
        join,
        failure: None,
    };
    for (index, stream) in streams.into_iter().enumerate() {
        queue.put(index, Some(stream));
    }
    let queue = Mutex::new(queue);
    let has_changed = Condvar::new();
    let work = |thread: usize| {
        let (mut sink, mut buffers) = (make(), T::Buffers::default());
        let mut guard = locked(&queue);
        loop {
            if guard.failure.is_some() || reading.stop.load(Ordering::Relaxed) {
                return sink;
            }
            let Some(Taken { number, settled_ns, next }) = guard.take(thread, &mut buffers) else {
                // What is under way may leave something to read.
                if guard.under_way.iter().all(Option::is_none) {
                    return sink;
                }
                guard = has_changed.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner());
                continue;
            };
            drop(guard);
            let left = next.stream.read(&mut buffers, &mut sink);
            let edges = sink.cut();
            guard = locked(&queue);
            guard.under_way[thread] = None;
            match left {
                Ok(left) => guard.put(next.index, left),
                Err(error) => guard.failure = Some(error),
            }
            guard.arrive(number, edges, settled_ns);
            has_changed.notify_all();
        }
    };
    let work = &work;
    let sinks = std::thread::scope(|scope| {
        // Those that the system does not give are done without.
        let begin = |n| Builder::new().spawn_scoped(scope, move || work(n)).ok();
        let others: Vec<_> = (1..threads).filter_map(begin).collect();
        let mut sinks = vec![work(0)];
        for other in others {
            match other.join() {
                Ok(sink) => sinks.push(sink),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        sinks
    });
    let queue = queue.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    match queue.failure {
        Some(error) => Err(error),
        None => Ok(sinks),
    }
}

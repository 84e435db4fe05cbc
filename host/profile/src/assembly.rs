//! The stretches of a recording put together, in the order of time.
//!
//! A recorder with a buffer per CPU empties one after the other, so a thread that moves appears out
//! of order. But on one CPU it is in order, and what it did there between two moves is a segment
//! with a beginning and an end. Segments are put in order of time and joined like parts of a
//! recording: there are as many as moves, not as many as events. A segment is known to come next
//! when the recorder has been round its buffers twice since: whatever follows the end of a round is
//! not earlier than the latest event before the end of the round before. Where each buffer is read
//! as a stream of its own, its reader says up to when nothing more will come. Where neither is
//! known, segments wait until too many do; then the earlier half is taken to be complete. A thread
//! for which that turns out to be wrong is tangled, and the reader of the recording puts it in
//! order otherwise.

use crate::Options;
use crate::pairing::{Arrival, Segment, Segments};
use crate::part::{Edges, Part, Rounds};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Segments that wait at most; beyond that, nothing earlier than half of them is expected to come.
const MOST_WAITING: usize = 1 << 16;

/// Puts the edges of stretches together, in the order of the recording.
#[derive(Debug)]
pub struct Assembly {
    whole: Part,
    is_by_cpu: bool,
    waiting: BTreeMap<u32, Vec<Waiting>>,
    count: usize,
    latest_ns: u64,
    /// The latest event before the end of the last round.
    round_ns: u64,
    /// Before this, segments were joined without knowing that nothing more would come.
    guessed_ns: u64,
}

/// A segment that waits where its stretch left it: there may be as many as moves, which are sorted.
#[derive(Clone, Debug)]
struct Waiting {
    first_ns: u64,
    segments: Arc<Segments>,
    index: u32,
}

impl Waiting {
    fn segment(&self) -> &Segment {
        &self.segments.segments[self.index as usize]
    }
}

impl Assembly {
    /// Nothing yet; `arrival` decides whether stretches have to wait for others.
    pub fn new(options: &Options, arrival: Arrival) -> Self {
        Self {
            whole: Part::new(options),
            is_by_cpu: arrival != Arrival::InOrder,
            waiting: BTreeMap::new(),
            count: 0,
            latest_ns: 0,
            round_ns: 0,
            guessed_ns: 0,
        }
    }

    /// Takes the edges of the next stretch.
    pub fn take(&mut self, edges: Edges) {
        if !self.is_by_cpu {
            return self.whole.join_segments(edges);
        }
        let Edges { segments, inhibits, lost, rounds } = edges;
        self.check(&lost);
        self.whole.take_over(&lost, inhibits);
        self.wait(segments);
        let settled_ns = self.settled(rounds);
        self.settle(settled_ns);
        if self.count > MOST_WAITING {
            let middle_ns = self.guess();
            self.settle(middle_ns);
        }
    }

    /// Takes the edges of a stretch of one of several streams: nothing earlier than a time will
    /// come after it. Stretches of one stream come in its order.
    pub fn take_in_parallel(&mut self, edges: Edges, settled_ns: u64) {
        if !self.is_by_cpu {
            return self.whole.join_segments(edges);
        }
        let Edges { segments, inhibits, lost, .. } = edges;
        self.check(&lost);
        self.whole.take_over(&lost, inhibits);
        self.wait(segments);
        self.settle_before(settled_ns);
        if self.count > MOST_WAITING {
            let middle_ns = self.guess();
            self.settle_before(middle_ns);
        }
    }

    /// The middle of what waits, before which nothing more is expected.
    fn guess(&mut self) -> u64 {
        let waiting = self.waiting.values().flatten();
        let mut ends: Vec<u64> = waiting.map(|waiting| waiting.segment().last_ns).collect();
        let middle = ends.len() / 2;
        self.guessed_ns = self.guessed_ns.max(*ends.select_nth_unstable(middle).1);
        self.guessed_ns
    }

    /// A loss says that what spans it does not count, which is too late for segments that were
    /// joined.
    fn check(&mut self, lost: &[(u32, u64)]) {
        if lost.iter().any(|(_, at_ns)| (1..=self.guessed_ns).contains(at_ns)) {
            self.whole.tangle();
        }
    }

    fn wait(&mut self, segments: Segments) {
        let segments = Arc::new(segments);
        self.count += segments.segments.len();
        for (index, segment) in (0..).zip(&segments.segments) {
            let waiting =
                Waiting { first_ns: segment.first_ns, segments: Arc::clone(&segments), index };
            self.waiting.entry(segment.thread).or_default().push(waiting);
        }
    }

    /// Joins the segments that ended before a time, by when all losses up to their ends are known.
    fn settle_before(&mut self, until_ns: u64) {
        for waiting in self.waiting.values_mut() {
            // Stable: segments of one time stay in the order of their stream.
            waiting.sort_by_key(|waiting| waiting.first_ns);
            let ready = waiting.iter().take_while(|waiting| waiting.segment().last_ns < until_ns);
            let ready = ready.count();
            for waiting in waiting.drain(..ready) {
                self.whole.join_segment(waiting.segment(), &waiting.segments.heads);
            }
            self.count -= ready;
        }
    }

    /// Up to when nothing more will come.
    fn settled(&mut self, rounds: Rounds) -> u64 {
        let before = self.latest_ns;
        self.latest_ns = before.max(rounds.latest_ns);
        let settled_ns = match rounds.count {
            0 => return 0,
            1 => self.round_ns,
            _ => before.max(rounds.last_but_one_ns),
        };
        self.round_ns = before.max(rounds.last_ns);
        settled_ns
    }

    fn settle(&mut self, until_ns: u64) {
        for waiting in self.waiting.values_mut() {
            // Stable: segments of one time stay in the order of the recording.
            waiting.sort_by_key(|waiting| waiting.first_ns);
            let ready = waiting.partition_point(|waiting| waiting.first_ns <= until_ns);
            for waiting in waiting.drain(..ready) {
                self.whole.join_segment(waiting.segment(), &waiting.segments.heads);
            }
            self.count -= ready;
        }
    }

    /// Ends the recording with the sums of all stretches.
    pub fn finish(mut self, sums: impl IntoIterator<Item = Part>) -> Part {
        self.settle(u64::MAX);
        for part in sums {
            self.whole.absorb(part);
        }
        self.whole
    }
}

//! The stretches of a recording put together, in the order of time.
//!
//! A recorder with a buffer per CPU empties one after the other, so a thread that moves appears out
//! of order. But on one CPU it is in order, and what it did there between two moves is a lane with
//! a beginning and an end. Lanes are put in order of time and joined like parts of a recording:
//! there are as many as moves, not as many as events. A lane is known to come next when the recorder
//! has been round its buffers twice since: whatever follows the end of a round is not earlier than
//! the latest event before the end of the round before. Where each buffer is read as a stream of its
//! own, its reader says up to when nothing more will come.

use crate::Options;
use crate::pairing::{Arrival, Lane, Lanes};
use crate::part::{Edges, Part, Rounds};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Lanes that wait at most; beyond that, they are taken to be in order as they are.
const MOST_WAITING: usize = 1 << 16;

/// Puts the edges of stretches together, in the order of the recording.
#[derive(Debug)]
pub struct Assembly {
    whole: Part,
    is_by_cpu: bool,
    waiting: BTreeMap<u32, Vec<Waiting>>,
    /// Losses that are later than the lanes that were joined.
    losses: Vec<(u32, u64)>,
    count: usize,
    latest_ns: u64,
    /// The latest event before the end of the last round.
    round_ns: u64,
}

/// A lane that waits where its stretch left it: there may be as many as moves, which are sorted.
#[derive(Clone, Debug)]
struct Waiting {
    first_ns: u64,
    lanes: Arc<Lanes>,
    index: u32,
}

impl Waiting {
    fn lane(&self) -> &Lane {
        &self.lanes.lanes[self.index as usize]
    }
}

impl Assembly {
    pub fn new(options: &Options, arrival: Arrival) -> Self {
        Self {
            whole: Part::new(options),
            is_by_cpu: arrival != Arrival::InOrder,
            waiting: BTreeMap::new(),
            losses: Vec::new(),
            count: 0,
            latest_ns: 0,
            round_ns: 0,
        }
    }

    /// Takes the edges of the next stretch.
    pub fn take(&mut self, edges: Edges) {
        if !self.is_by_cpu {
            return self.whole.join_lanes(edges);
        }
        let Edges { lanes, inhibits, lost, rounds } = edges;
        self.whole.take_over(&lost, inhibits);
        self.wait(lanes);
        let settled_ns = self.settled(rounds);
        self.settle(if self.count > MOST_WAITING { u64::MAX } else { settled_ns });
    }

    /// Takes the edges of a stretch of one of several streams: nothing earlier than a time will come
    /// after it. Stretches of one stream come in its order.
    pub fn take_abreast(&mut self, edges: Edges, settled_ns: u64) {
        if !self.is_by_cpu {
            return self.whole.join_lanes(edges);
        }
        let Edges { lanes, inhibits, lost, .. } = edges;
        self.whole.take_over(&[], inhibits);
        self.losses.extend(lost);
        self.wait(lanes);
        self.settle_before(if self.count > MOST_WAITING { u64::MAX } else { settled_ns });
    }

    fn wait(&mut self, lanes: Lanes) {
        let lanes = Arc::new(lanes);
        self.count += lanes.lanes.len();
        for (index, lane) in (0..).zip(&lanes.lanes) {
            let waiting = Waiting { first_ns: lane.first_ns, lanes: Arc::clone(&lanes), index };
            self.waiting.entry(lane.thread).or_default().push(waiting);
        }
    }

    /// Joins the lanes that ended before a time, by when all losses up to their ends are known, and
    /// those are handed over a few at a time.
    fn settle_before(&mut self, until_ns: u64) {
        let (known, later): (Vec<_>, Vec<_>) =
            self.losses.iter().partition(|(_, at_ns)| *at_ns < until_ns);
        self.losses = later;
        self.whole.take_over(&known, Vec::new());
        for waiting in self.waiting.values_mut() {
            // Stable: lanes of one time stay in the order of their stream.
            waiting.sort_by_key(|waiting| waiting.first_ns);
            let ready = waiting.iter().take_while(|waiting| waiting.lane().last_ns < until_ns);
            let ready = ready.count();
            for waiting in waiting.drain(..ready) {
                self.whole.join_lane(waiting.lane(), &waiting.lanes.heads);
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
            // Stable: lanes of one time stay in the order of the recording.
            waiting.sort_by_key(|waiting| waiting.first_ns);
            let ready = waiting.partition_point(|waiting| waiting.first_ns <= until_ns);
            for waiting in waiting.drain(..ready) {
                self.whole.join_lane(waiting.lane(), &waiting.lanes.heads);
            }
            self.count -= ready;
        }
    }

    /// Ends the recording with the sums of all stretches.
    pub fn finish(mut self, sums: impl IntoIterator<Item = Part>) -> Part {
        self.whole.take_over(&std::mem::take(&mut self.losses), Vec::new());
        self.settle(u64::MAX);
        for part in sums {
            self.whole.absorb(part);
        }
        self.whole
    }
}

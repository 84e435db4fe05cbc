//! Events of several ring buffers back into the order of time.
//!
//! A recorder empties one buffer after the other, so a thread that moves between CPUs appears out
//! of order. It marks when it has been round all of them: whatever comes after the end of a round
//! is not earlier than the latest event before the end of the round before. So events wait for at
//! most two rounds. Order between threads does not matter here, which makes this much cheaper than
//! one queue for all.

use crate::sink::Sink;
use std::collections::BTreeMap;
use trace::kvm::{KvmEvent, Stamp};

/// Events that wait at most; a recording without rounds is put in order within this many.
const MOST_WAITING: usize = 1 << 18;

#[derive(Debug, Default)]
struct Waiting {
    events: Vec<(Stamp, KvmEvent)>,
    is_disordered: bool,
}

/// Passes events on in the order of time, thread by thread.
#[derive(Debug)]
pub struct Orderer<S> {
    pub sink: S,
    threads: BTreeMap<u32, Waiting>,
    waiting: usize,
    latest_ns: u64,
    /// What may be passed on at the end of this round.
    settled_ns: u64,
}

impl<S: Sink> Orderer<S> {
    pub fn new(sink: S) -> Self {
        Self { sink, threads: BTreeMap::new(), waiting: 0, latest_ns: 0, settled_ns: 0 }
    }

    fn pass_on(&mut self, until_ns: u64) {
        let mut left = 0;
        for waiting in self.threads.values_mut() {
            if std::mem::take(&mut waiting.is_disordered) {
                // Stable: events of one time stay in the order of the file.
                waiting.events.sort_by_key(|event| event.0.time_ns);
            }
            let ready = waiting.events.partition_point(|event| event.0.time_ns <= until_ns);
            for (stamp, event) in waiting.events.drain(..ready) {
                self.sink.event(&stamp, &event);
            }
            left += waiting.events.len();
        }
        self.waiting = left;
    }

    /// Passes on everything that still waits.
    pub fn finish(mut self) -> S {
        self.pass_on(u64::MAX);
        self.sink
    }
}

impl<S: Sink> Sink for Orderer<S> {
    fn event(&mut self, stamp: &Stamp, event: &KvmEvent) {
        self.latest_ns = self.latest_ns.max(stamp.time_ns);
        let waiting = self.threads.entry(stamp.thread).or_default();
        let is_later = waiting.events.last().is_none_or(|last| last.0.time_ns <= stamp.time_ns);
        waiting.is_disordered |= !is_later;
        waiting.events.push((*stamp, *event));
        self.waiting += 1;
        if self.waiting >= MOST_WAITING {
            self.finished_round();
        }
    }

    fn lost(&mut self, cpu: u32, at_ns: u64, events: u64) {
        self.sink.lost(cpu, at_ns, events);
    }

    fn thread_name(&mut self, process: u32, thread: u32, name: &str) {
        self.sink.thread_name(process, thread, name);
    }

    fn finished_round(&mut self) {
        self.pass_on(self.settled_ns);
        self.settled_ns = self.latest_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Default)]
    struct Times(Vec<(u32, u64)>);

    impl Sink for Times {
        fn event(&mut self, stamp: &Stamp, _: &KvmEvent) {
            self.0.push((stamp.thread, stamp.time_ns));
        }

        fn lost(&mut self, _: u32, _: u64, _: u64) {}
    }

    fn at(thread: u32, time_ns: u64) -> (Stamp, KvmEvent) {
        (Stamp { time_ns, thread, ..Stamp::default() }, KvmEvent::Entry { vcpu: 0 })
    }

    #[test]
    fn an_event_waits_until_the_round_after_the_next() {
        let mut orderer = Orderer::new(Times::default());
        let mut send = |events: &[(u32, u64)], expected: &[u64]| {
            for (thread, time) in events {
                let (stamp, event) = at(*thread, *time);
                orderer.event(&stamp, &event);
            }
            orderer.finished_round();
            let passed: Vec<u64> = orderer.sink.0.drain(..).map(|event| event.1).collect();
            assert_eq!(passed, expected);
        };
        send(&[(1, 5), (1, 9), (1, 3)], &[]);
        send(&[(1, 11), (1, 10)], &[3, 5, 9]);
        send(&[], &[10, 11]);
    }

    proptest! {
        #[test]
        fn each_thread_comes_out_in_order_and_complete(
            times in proptest::collection::vec((0u32..4, 0u64..1000), 0..300),
            cut in 0usize..300,
        ) {
            let mut orderer = Orderer::new(Times::default());
            // Two buffers, each in order, emptied one after the other in rounds of 200 ns.
            let mut sorted = times.clone();
            sorted.sort_by_key(|event| event.1);
            for round in 0..5u64 {
                for buffer in 0..2usize {
                    for (index, (thread, time)) in sorted.iter().enumerate() {
                        if time / 200 == round && (index + cut) % 2 == buffer {
                            let (stamp, event) = at(*thread, *time);
                            orderer.event(&stamp, &event);
                        }
                    }
                }
                orderer.finished_round();
            }
            let out = orderer.finish().0;
            prop_assert_eq!(out.len(), times.len());
            for thread in 0..4 {
                let of_thread: Vec<u64> =
                    out.iter().filter(|event| event.0 == thread).map(|event| event.1).collect();
                prop_assert!(of_thread.is_sorted());
            }
        }
    }
}

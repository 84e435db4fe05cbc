//! Events of several ring buffers back into the order of time.
//!
//! A recorder empties one buffer after the other, so a thread that moves between CPUs appears out
//! of order. It marks when it has been round all of them: whatever comes after the end of a round
//! is not earlier than the latest event before the end of the round before. So events wait for at
//! most two rounds. Without marks they wait until the recording ends or too many do; then the
//! earlier half is passed on, and an event that is too late after all is an error, not a wrong
//! figure. Order between threads does not matter here, which makes this much cheaper than one queue
//! for all.

use crate::Error;
use crate::sink::Sink;
use std::collections::BTreeMap;
use trace::kvm::{KvmEvent, Stamp};

/// Events that wait at most: half a gigabyte of them.
const MOST_WAITING: usize = 1 << 23;

#[derive(Debug, Default)]
struct Waiting {
    events: Vec<(Stamp, KvmEvent)>,
    is_disordered: bool,
    /// The latest event that was passed on.
    passed_ns: u64,
}

/// Passes events on in the order of time, thread by thread.
#[derive(Debug)]
pub struct Orderer<S> {
    sink: S,
    threads: BTreeMap<u32, Waiting>,
    /// Only their events are passed on, if there are any here.
    only: Vec<u32>,
    has_trusted_marks: bool,
    most_waiting: usize,
    waiting: usize,
    latest_ns: u64,
    /// What may be passed on at the end of this round.
    settled_ns: u64,
    /// The first thing that came after later ones had been passed on.
    late: Option<Error>,
}

impl<S: Sink> Orderer<S> {
    /// For a recording whose marks of rounds are true, if it has any.
    pub fn new(sink: S) -> Self {
        Self {
            sink,
            threads: BTreeMap::new(),
            only: Vec::new(),
            has_trusted_marks: true,
            most_waiting: MOST_WAITING,
            waiting: 0,
            latest_ns: 0,
            settled_ns: 0,
            late: None,
        }
    }

    /// For some threads of a recording of which marks of rounds, if any, are not to be trusted.
    pub fn of_threads(sink: S, mut only: Vec<u32>) -> Self {
        only.sort_unstable();
        Self { only, has_trusted_marks: false, ..Self::new(sink) }
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
                waiting.passed_ns = stamp.time_ns;
                self.sink.event(&stamp, &event);
            }
            left += waiting.events.len();
        }
        self.waiting = left;
    }

    /// Passes on the earlier half of what waits.
    #[cold]
    fn make_room(&mut self) {
        let events = self.threads.values().flat_map(|waiting| &waiting.events);
        let mut times: Vec<u64> = events.map(|(stamp, _)| stamp.time_ns).collect();
        let middle = times.len() / 2;
        let (_, middle_ns, _) = times.select_nth_unstable(middle);
        let middle_ns = *middle_ns;
        self.settled_ns = self.settled_ns.max(middle_ns);
        self.pass_on(middle_ns);
    }

    #[cold]
    fn came_late(&mut self, what: &'static str, time_ns: u64) {
        let most = self.most_waiting;
        self.late.get_or_insert(Error::Disordered { what, time_ns, most });
    }

    /// Passes on everything that still waits.
    pub fn finish(mut self) -> Result<S, Error> {
        self.pass_on(u64::MAX);
        match self.late {
            Some(late) => Err(late),
            None => Ok(self.sink),
        }
    }
}

impl<S: Sink> Sink for Orderer<S> {
    fn event(&mut self, stamp: &Stamp, event: &KvmEvent) {
        if !self.only.is_empty() && self.only.binary_search(&stamp.thread).is_err() {
            return;
        }
        self.latest_ns = self.latest_ns.max(stamp.time_ns);
        let waiting = self.threads.entry(stamp.thread).or_default();
        let is_later = waiting.events.last().is_none_or(|last| last.0.time_ns <= stamp.time_ns);
        waiting.is_disordered |= !is_later;
        waiting.events.push((*stamp, *event));
        if stamp.time_ns < waiting.passed_ns {
            self.came_late("an event", stamp.time_ns);
        }
        self.waiting += 1;
        if self.waiting >= self.most_waiting {
            self.make_room();
        }
    }

    fn lost(&mut self, cpu: u32, at_ns: u64, events: u64) {
        // What was passed on might have spanned it. Without a time it is of none in particular.
        if at_ns > 0 && self.threads.values().any(|waiting| waiting.passed_ns > at_ns) {
            self.came_late("a loss", at_ns);
        }
        self.sink.lost(cpu, at_ns, events);
    }

    fn thread_name(&mut self, process: u32, thread: u32, name: &str) {
        self.sink.thread_name(process, thread, name);
    }

    fn finished_round(&mut self) {
        if self.has_trusted_marks {
            self.pass_on(self.settled_ns);
            self.settled_ns = self.latest_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Default)]
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

    fn sent(orderer: &mut Orderer<Times>, events: impl IntoIterator<Item = (u32, u64)>) {
        for (thread, time) in events {
            let (stamp, event) = at(thread, time);
            orderer.event(&stamp, &event);
        }
    }

    #[test]
    fn without_marks_events_wait_until_too_many_do() {
        // Two buffers, emptied by turns: a thread moves between them.
        let emptied = (0..50u64).flat_map(|round| {
            let from = round * 20;
            (from..from + 20).step_by(2).chain((from + 1..from + 20).step_by(2))
        });
        let mut orderer = Orderer { most_waiting: 64, ..Orderer::new(Times::default()) };
        sent(&mut orderer, emptied.map(|time| (1, time)));
        assert!(!orderer.sink.0.is_empty(), "the earlier half was passed on");
        let times = orderer.finish().expect("nothing is later than half of what waits").0;
        assert_eq!(times, (0..1000).map(|time| (1, time)).collect::<Vec<_>>());
    }

    #[test]
    fn what_comes_too_late_is_an_error_and_no_wrong_order() {
        let mut orderer = Orderer { most_waiting: 64, ..Orderer::new(Times::default()) };
        sent(&mut orderer, (0..200).chain(50..60).map(|time| (1, time)));
        let error = orderer.finish().expect_err("later ones were passed on").to_string();
        assert!(error.starts_with("an event at 0.000000050 s"), "{error}");
        // Another thread's events need no order among the first's.
        let mut orderer = Orderer { most_waiting: 64, ..Orderer::new(Times::default()) };
        sent(&mut orderer, (0..200).map(|time| (1, time)).chain((50..60).map(|time| (2, time))));
        orderer.finish().expect("each thread is in order");
        // A loss says that what spans it does not count, which is too late for what was passed on.
        let mut orderer = Orderer { most_waiting: 64, ..Orderer::new(Times::default()) };
        sent(&mut orderer, (0..200).map(|time| (1, time)));
        orderer.lost(3, 20, 1);
        assert!(orderer.finish().is_err());
    }

    #[test]
    fn marks_that_are_not_trusted_settle_nothing() {
        let mut orderer = Orderer::of_threads(Times::default(), vec![1]);
        for round in [[8, 9], [4, 5], [0, 1]] {
            sent(&mut orderer, round.map(|time| (1, time)));
            sent(&mut orderer, round.map(|time| (2, time)));
            orderer.finished_round();
        }
        let out = orderer.finish().expect("everything waits").0;
        assert_eq!(out, [0, 1, 4, 5, 8, 9].map(|time| (1, time)), "and other threads are left out");
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
            let out = orderer.finish().expect("rounds are true").0;
            prop_assert_eq!(out.len(), times.len());
            for thread in 0..4 {
                let of_thread: Vec<u64> =
                    out.iter().filter(|event| event.0 == thread).map(|event| event.1).collect();
                prop_assert!(of_thread.is_sorted());
            }
        }
    }
}

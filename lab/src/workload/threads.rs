//! Threads on a few locks, in a Linux guest: mostly wake-ups of one processor by another.

use super::figure::{Figure, rate};
use super::kind::{Conditions, Workload};
use crate::linux::console::mark;
use crate::linux::place::GUEST_COMMAND_LINE;
use crate::plan::{LinuxGuest, Needs};
use crate::protocol::{Step, WINDOW_BEGINS, WINDOW_ENDS};
use serde_json::Value as Json;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

/// How long the threads run.
const SECONDS: f64 = 0.15;
/// Threads for each processor: enough for none to be idle.
const THREADS: usize = 4;
/// Locks that they share, as in `sysbench threads --thread-locks=8`.
const LOCKS: usize = 8;
/// Passes of one event, as sysbench's `--thread-yields`, scaled down for an emulated machine.
const YIELDS: usize = 100;

pub(super) struct Threads;

impl Workload for Threads {
    fn name(&self) -> &'static str {
        "threads"
    }

    fn summary(&self) -> &'static str {
        "threads on a few locks in a Linux guest, which wake each other"
    }

    fn needs(&self) -> Needs {
        Needs { linux: Some(LinuxGuest::default()), ..Needs::default() }
    }

    fn shares_processors(&self) -> bool {
        false
    }

    /// The published guests hardly ever halt; this one polls before it does, too.
    fn steps(&self, conditions: &Conditions<'_>) -> Vec<Step> {
        let words = format!("cpuidle_haltpoll.force=Y {GUEST_COMMAND_LINE}{}", self.name());
        vec![conditions.step(self.name(), "x2APIC", true, conditions.linux(&words))]
    }

    fn work(&self, _words: &str) -> anyhow::Result<()> {
        run();
        Ok(())
    }

    fn headline(&self) -> (&'static str, &'static str) {
        ("threads", "the threads' events")
    }

    fn figure(&self, record: &Json) -> Option<Figure> {
        rate(record, "threads", "threads", "events", "events/s")
    }
}

/// A lock that puts waiters to sleep at once: the wake-up, an IPI, is what is to be seen.
#[derive(Default)]
struct SleepingLock {
    is_taken: Mutex<bool>,
    freed: Condvar,
}

impl SleepingLock {
    fn with(&self, act: impl FnOnce()) {
        let mut is_taken = self.is_taken.lock().unwrap_or_else(PoisonError::into_inner);
        while *is_taken {
            is_taken = self.freed.wait(is_taken).unwrap_or_else(PoisonError::into_inner);
        }
        *is_taken = true;
        drop(is_taken);
        act();
        *self.is_taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.freed.notify_one();
    }
}

/// The algorithm of sysbench's threads test: each event takes one lock after another, yielding
/// while it holds it.
fn run() {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let locks: Arc<Vec<SleepingLock>> =
        Arc::new(std::iter::repeat_with(SleepingLock::default).take(LOCKS).collect());
    mark(WINDOW_BEGINS);
    let start = Instant::now();
    let workers: Vec<_> = (0..cpus * THREADS)
        .map(|_| {
            let locks = locks.clone();
            std::thread::spawn(move || {
                let mut events = 0u64;
                while start.elapsed().as_secs_f64() < SECONDS {
                    for pass in 0..YIELDS {
                        locks[pass % LOCKS].with(std::thread::yield_now);
                    }
                    events += 1;
                }
                events
            })
        })
        .collect();
    let events: u64 = workers.into_iter().map(|worker| worker.join().unwrap_or(0)).sum();
    let seconds = start.elapsed().as_secs_f64();
    mark(WINDOW_ENDS);
    say!(
        "{{\"record\":\"threads\",\"cpus\":{cpus},\"threads\":{},\"events\":{events},\"seconds\":{seconds:.6}}}",
        cpus * THREADS
    );
}

//! This program as the first process of a virtual machine: a workload, then power-off.

use super::{GUEST_COMMAND, mounts, traffic};
use crate::counters::{WINDOW_BEGINS, WINDOW_ENDS};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::Command;
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

pub(super) fn run(workload: &str) {
    mounts::late();
    match workload.split_once(',').unwrap_or((workload, "")) {
        ("threads", _) => threads(),
        ("command", _) => command(),
        ("network", word) => traffic::run(word),
        (other, _) => println!("{{\"record\":\"failure\",\"unknown workload\":\"{other}\"}}"),
    }
    drain();
}

/// Waits until the console's driver has sent what was printed: power-off does not.
pub(super) fn drain() {
    let _ = std::io::stdout().flush();
    let _ = rustix::termios::tcdrain(std::io::stdout());
}

/// Tells the lab where the part of interest begins and ends: a write to a port is an exit that the
/// machine sees. Without /dev/port all of the run counts.
pub(super) fn mark(port: u16) {
    if let Ok(file) = std::fs::File::options().write(true).open("/dev/port") {
        let _ = file.write_at(&[0], port.into());
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
fn threads() {
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
    println!(
        "{{\"record\":\"threads\",\"cpus\":{cpus},\"threads\":{},\"events\":{events},\"seconds\":{seconds:.6}}}",
        cpus * THREADS
    );
}

/// The command that came with the initial RAM disk: one argument a line.
fn command() {
    let text = std::fs::read_to_string(GUEST_COMMAND).unwrap_or_default();
    let mut words = text.lines();
    let Some(program) = words.next() else { return };
    mark(WINDOW_BEGINS);
    let start = Instant::now();
    let status = Command::new(program).args(words).env("PATH", "/bin:/usr/bin").status();
    let seconds = start.elapsed().as_secs_f64();
    mark(WINDOW_ENDS);
    match status {
        Ok(status) => println!(
            "{{\"record\":\"command\",\"status\":{},\"seconds\":{seconds:.6}}}",
            status.code().unwrap_or(-1)
        ),
        Err(error) => {
            println!("{{\"record\":\"failure\",\"cannot start\":\"{program}: {error}\"}}")
        }
    }
}

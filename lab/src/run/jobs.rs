//! Parts of a run, as many at once as there are jobs: a thread for each, results in the order of
//! the parts.
//!
//! A part that fails, or the user who stops, ends all: each thread looks for that whenever its
//! machine has run for a slice of time.

use crate::watch::{Terms, Told, Watch};
use anyhow::ensure;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::Builder;
use std::time::Duration;

/// Between two looks whether the user wants an end.
const LOOK: Duration = Duration::from_millis(100);

/// As many as this computer has processors for, and memory that nobody uses: so many bytes each.
pub fn usual(memory: u64) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let fit = available(&text).map_or(usize::MAX, |bytes| (bytes / memory.max(1)) as usize);
    processors.min(fit).max(1)
}

/// Bytes that programs can have. [LINUX "The /proc Filesystem"]
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1 << 10)
}

/// What is done with a part; a job can keep something of its own for its next part.
pub(super) type Work<'a, W, T, R> =
    &'a (dyn Fn(&mut W, &T, &mut Watch<'_>) -> anyhow::Result<R> + Sync);

/// What a thread says of a part, by its number.
enum Said<R> {
    Stage(usize, String),
    Done(usize, anyhow::Result<R>),
}

/// Does it with all parts. One job does it on the caller's thread, and tells all to its watch.
pub(super) fn all<W: Default, T: Sync, R: Send>(
    parts: &[T],
    jobs: usize,
    work: Work<'_, W, T, R>,
    watch: &mut Watch<'_>,
) -> anyhow::Result<Vec<R>> {
    let jobs = jobs.min(parts.len());
    if jobs < 2 {
        let mut own = W::default();
        return parts.iter().map(|part| work(&mut own, part, watch)).collect();
    }
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, receiver) = mpsc::channel();
    let terms = watch.beside(&is_over);
    let done = std::thread::scope(|scope| {
        let mut begun = Vec::new();
        for _ in 0..jobs {
            let (sender, next) = (sender.clone(), &next);
            let job = move || one_after_the_other(parts, next, work, terms, &sender);
            begun.extend(Builder::new().spawn_scoped(scope, job));
        }
        drop(sender);
        ensure!(!begun.is_empty(), "no thread for a part of the run");
        let collected = collect(&receiver, parts.len(), watch);
        is_over.store(true, Ordering::Relaxed);
        collected
    })?;
    let done: Vec<R> = done.into_values().collect();
    ensure!(done.len() == parts.len(), "a part of the run has no end");
    Ok(done)
}

/// What a thread does: the next part that none has begun, until there is none or one has failed.
fn one_after_the_other<W: Default, T, R>(
    parts: &[T],
    next: &AtomicUsize,
    work: Work<'_, W, T, R>,
    terms: Terms<'_>,
    sender: &Sender<Said<R>>,
) {
    let mut own = W::default();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let Some(part) = parts.get(number) else { return };
        let mut tell = |told: Told<'_>| {
            if let Told::Stage(name) = told {
                // Who no longer listens ends this soon.
                let _ = sender.send(Said::Stage(number, name.to_owned()));
            }
        };
        let result = work(&mut own, part, &mut terms.watch(&mut tell));
        let is_last = result.is_err();
        if sender.send(Said::Done(number, result)).is_err() || is_last {
            return;
        }
    }
}

fn collect<R>(
    said: &Receiver<Said<R>>,
    count: usize,
    watch: &mut Watch<'_>,
) -> anyhow::Result<BTreeMap<usize, R>> {
    let (mut done, mut stages) = (BTreeMap::new(), BTreeMap::new());
    loop {
        match said.recv_timeout(LOOK) {
            Ok(Said::Stage(number, name)) => drop(stages.insert(number, name)),
            Ok(Said::Done(number, result)) => {
                stages.remove(&number);
                done.insert(number, result?);
            }
            Err(RecvTimeoutError::Timeout) => {
                watch.tick()?;
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(done),
        }
        let now: Vec<&str> = stages.values().map(String::as_str).collect();
        watch.line(&format!("{} of {count} done; {}", done.len(), now.join("; ")));
        watch.tick()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::Halt;
    use std::time::Instant;

    /// A part's work: takes longer for earlier parts, so that later ones end first.
    fn slow(own: &mut usize, part: &u64, watch: &mut Watch<'_>) -> anyhow::Result<(u64, usize)> {
        watch.stage(&format!("part {part}"));
        std::thread::sleep(Duration::from_millis(20 - part));
        *own += 1;
        Ok((part * part, *own))
    }

    /// Goes on until it is stopped.
    fn endless((): &mut (), part: &u64, watch: &mut Watch<'_>) -> anyhow::Result<()> {
        anyhow::ensure!(*part < 100, "part {part} fails");
        loop {
            watch.check()?;
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn watched<R>(stop: &AtomicBool, act: impl FnOnce(&mut Watch<'_>) -> R) -> (R, Vec<String>) {
        let mut heard = Vec::new();
        let mut tell = |told: Told<'_>| {
            if let Told::Stage(text) | Told::Line(text) = told {
                heard.push(text.to_owned());
            }
        };
        let result = act(&mut Watch::new(stop, Duration::from_secs(60), &mut tell));
        (result, heard)
    }

    #[test]
    fn results_come_in_the_order_of_the_parts_whatever_the_jobs() {
        let stop = AtomicBool::new(false);
        let parts: Vec<u64> = (0..9).collect();
        let squares: Vec<u64> = parts.iter().map(|part| part * part).collect();
        for jobs in [0, 1, 2, 4, 99] {
            let (done, heard) = watched(&stop, |watch| all(&parts, jobs, &slow, watch));
            let done = done.expect("nothing fails");
            assert_eq!(done.iter().map(|one| one.0).collect::<Vec<_>>(), squares, "{jobs} jobs");
            // A job keeps what is its own from part to part.
            let most = done.iter().map(|one| one.1).max();
            assert!(jobs > 1 || most == Some(parts.len()), "{most:?}");
            assert!(heard.iter().any(|text| text.contains("part 8")), "{heard:?}");
        }
        assert!(
            all(&[], 2, &slow, &mut Watch::new(&stop, LOOK, &mut |_| {}))
                .is_ok_and(|all| all.is_empty())
        );
    }

    #[test]
    fn a_part_that_fails_and_a_user_who_stops_end_all_threads() {
        let stop = AtomicBool::new(false);
        let began = Instant::now();
        let (done, _) = watched(&stop, |watch| all(&[1, 2, 100], 3, &endless, watch));
        assert_eq!(done.expect_err("one fails").to_string(), "part 100 fails");
        let (done, _) = watched(&stop, |watch| {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(50));
                    stop.store(true, Ordering::Relaxed);
                });
                all(&[1, 2, 3, 4], 2, &endless, watch)
            })
        });
        let error = done.expect_err("the user wants an end");
        assert_eq!(error.downcast_ref::<Halt>(), Some(&Halt::Interrupted));
        assert!(began.elapsed() < Duration::from_secs(20), "no thread goes on");
    }

    #[test]
    fn patience_is_that_of_each_part_and_not_of_all_together() {
        let stop = AtomicBool::new(false);
        let patience = Duration::from_millis(150);
        let mut ignore = |_: Told<'_>| {};
        let mut watch = Watch::new(&stop, patience, &mut ignore);
        let parts: Vec<u64> = (0..20).collect();
        assert!(all(&parts, 2, &slow, &mut watch).is_ok(), "none takes long");
        let done = all(&[1, 2], 2, &endless, &mut watch);
        let error = done.expect_err("patience ends");
        assert_eq!(error.downcast_ref::<Halt>(), Some(&Halt::HostTime(patience)));
    }

    #[test]
    fn jobs_fit_into_memory_and_there_is_one() {
        let text = "MemTotal:       24576000 kB\nMemAvailable:    2048 kB\n";
        assert_eq!(available(text), Some(2 << 20));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
        assert_eq!(usual(u64::MAX), 1);
        assert!(usual(1) >= 1);
    }
}

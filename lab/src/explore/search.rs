//! The search: windows from moments of a plain run, on as many machines at once as there are jobs.
//!
//! What a moment gives follows from its number alone. So a search of a number of windows has the
//! same rows whatever the jobs, and its parts together the rows of the whole.

use super::finding::Finding;
use super::meter;
use super::moment::{Moment, WINDOWS, Work};
use super::oracle::Key;
use super::report::Report;
use super::stage::{Kept, Mix, Stage};
use crate::watch::Watch;
use anyhow::{Context, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Between two looks whether the user wants an end.
const LOOK: Duration = Duration::from_millis(200);

/// What to search, and for how long.
#[derive(Clone, Debug)]
pub struct Search {
    /// Time of this machine; none has no end.
    pub budget: Option<Duration>,
    /// Windows of the whole search, of which this may be a part; none has no end.
    pub windows: Option<u64>,
    /// Where all numbers come from.
    pub seed: u64,
    /// One of so many parts of the same windows.
    pub shard: (u64, u64),
    /// Machines at once.
    pub jobs: usize,
    /// The options that say which host it is, for findings.
    pub words: Vec<String>,
    /// What runs in the guest, likewise.
    pub mix: Mix,
    /// Causes that are known already, of which no finding is wanted.
    pub told: BTreeSet<Key>,
}

/// What the jobs share.
struct Shared<'a> {
    search: &'a Search,
    /// The next moment of this part that nobody has begun.
    next: AtomicU64,
    /// By cause: the first window that is known to show it.
    known: Mutex<BTreeMap<Key, u64>>,
    ends: Option<Instant>,
    stop: AtomicBool,
}

/// Searches; `found` is given each finding as soon as it is reduced, and once more if an earlier
/// window turns out to show the same.
pub fn search(
    mut stage: Stage,
    search: &Search,
    watch: &mut Watch<'_>,
    mut found: impl FnMut(&Finding) -> anyhow::Result<()>,
) -> anyhow::Result<Report> {
    let mut report = Report::new(&stage, search);
    stage.learn();
    let others = search.jobs.saturating_sub(1);
    let kept = (others > 0).then(|| stage.keep()).transpose()?;
    let shared = Shared {
        search,
        next: AtomicU64::new(0),
        known: Mutex::new(search.told.iter().map(|key| (key.clone(), 0)).collect()),
        ends: search.budget.and_then(|budget| Instant::now().checked_add(budget)),
        stop: AtomicBool::new(false),
    };
    let (sender, moments) = mpsc::channel();
    std::thread::scope(|scope| {
        let mut begun = Vec::new();
        let (all, own) = (&shared, sender.clone());
        begun.push(Builder::new().spawn_scoped(scope, move || all.job(stage, &own)));
        for _ in 0..others {
            let (all, kept, own) = (&shared, kept.as_ref(), sender.clone());
            begun.push(Builder::new().spawn_scoped(scope, move || all.another(kept, &own)));
        }
        drop(sender);
        let collected = collect(&moments, &mut report, &mut found, watch);
        // Each job ends with its window.
        shared.stop.store(true, Ordering::Relaxed);
        collected?;
        for job in begun {
            let ended = job.context("no thread for a machine")?.join();
            let spent = ended.ok().context("a machine's thread ended early")??;
            report.spent += spent;
        }
        Ok(report)
    })
}

fn collect(
    moments: &mpsc::Receiver<Moment>,
    report: &mut Report,
    found: &mut impl FnMut(&Finding) -> anyhow::Result<()>,
    watch: &mut Watch<'_>,
) -> anyhow::Result<()> {
    // Of moments that were done before earlier ones; there are fewer than jobs.
    let mut early = BTreeMap::new();
    let mut next = report.shard.0;
    loop {
        match moments.recv_timeout(LOOK) {
            Ok(moment) => {
                for finding in &moment.findings {
                    if report.is_first(finding) {
                        found(finding)?;
                        report.keep(finding.clone());
                    }
                }
                early.insert(moment.number, moment);
                while let Some(moment) = early.remove(&next) {
                    report.take(&moment);
                    next += report.shard.1;
                }
                let (windows, findings) = (report.windows.len(), report.findings.len());
                watch.line(&format!("{windows} windows, {findings} findings"));
            }
            Err(RecvTimeoutError::Timeout) => watch.tick()?,
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    early.into_values().for_each(|moment| report.take(&moment));
    report.count();
    Ok(())
}

impl Shared<'_> {
    /// A job on a machine of its own.
    fn another(&self, kept: Option<&Kept>, sender: &Sender<Moment>) -> anyhow::Result<Duration> {
        let stage = kept.context("no machine was kept")?.stage()?;
        self.job(stage, sender)
    }

    /// One moment after the other, each begun by nobody else; what that took.
    fn job(&self, mut stage: Stage, sender: &Sender<Moment>) -> anyhow::Result<Duration> {
        let is_over = || self.is_over();
        let (search, known) = (self.search, &self.known);
        let work = Work { search, known, is_over: &is_over, sought: None, alone: None };
        let first = stage.now();
        while !self.is_over() {
            let turn = self.next.fetch_add(1, Ordering::Relaxed);
            let (index, count) = self.search.shard;
            let Some(number) = turn.checked_mul(count).and_then(|all| all.checked_add(index))
            else {
                break;
            };
            let begins = number.saturating_mul(WINDOWS);
            ensure!(begins < u64::MAX / 2, "there are no more windows");
            if self.search.windows.is_some_and(|windows| begins >= windows) {
                break;
            }
            let moment = work.moment(&mut stage, first, number);
            // Nobody runs at any moment that follows.
            let is_last = moment.end.is_some();
            if sender.send(moment).is_err() || is_last {
                break;
            }
        }
        Ok(meter::spent())
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.ends.is_some_and(|ends| Instant::now() >= ends)
    }
}

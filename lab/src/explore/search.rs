//! The search: windows from moments of a plain run, one strategy after the other.

use super::choice::Strategy;
use super::finding::{Finding, SCHEMA, hash};
use super::lanes;
use super::meter::Meter;
use super::minimise::minimise;
use super::oracle::{Alarm, Key};
use super::report::{Report, Row};
use super::stage::{Mix, Stage};
use super::story;
use super::window::{LENGTH, TAIL};
use crate::watch::Watch;
use arch::time::Picoseconds;
use board::perturb::Source;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Between two moments from which windows begin.
const STRIDE: Picoseconds = Picoseconds::from_nanoseconds(3_100_000);
/// Windows of one moment: of each kind how many.
const SHARES: [(Strategy, u64); 3] =
    [(Strategy::Plain, 1), (Strategy::Directed, 6), (Strategy::Random, 2)];

/// What to search, and for how long.
#[derive(Clone, Debug)]
pub struct Search {
    /// Time of this machine.
    pub budget: Duration,
    /// Where all numbers come from.
    pub seed: u64,
    /// One of so many parts of the same windows.
    pub shard: (u64, u64),
    /// The options that say which host it is, for findings.
    pub words: Vec<String>,
    /// What runs in the guest, likewise.
    pub mix: Mix,
}

/// Searches; `found` is given each finding as soon as it is reduced.
pub fn search(
    stage: &mut Stage,
    search: &Search,
    meter: &Meter,
    watch: &mut Watch<'_>,
    mut found: impl FnMut(&Finding) -> anyhow::Result<()>,
) -> anyhow::Result<Report> {
    let began = Instant::now();
    let mut report = Report::new(&stage.release);
    let mut known = BTreeSet::new();
    let mut moment = 0u64;
    while began.elapsed() < search.budget {
        watch.check()?;
        let all = SHARES.iter().flat_map(|(strategy, count)| (0..*count).map(|_| *strategy));
        for (place, strategy) in all.enumerate() {
            let number = moment * windows_of_a_moment() + place as u64;
            if number % search.shard.1 != search.shard.0 && strategy != Strategy::Plain {
                continue;
            }
            if began.elapsed() >= search.budget {
                break;
            }
            let seed = search.seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let started = meter.spent();
            let seen = stage.window(strategy.source(seed));
            let row = report.row(strategy);
            row.windows += 1;
            row.time.0 += LENGTH.0 + TAIL.0;
            row.spent += meter.spent().saturating_sub(started);
            row.holds += seen.holds.len() as u64;
            for alarm in &seen.alarms {
                row.see(alarm.key());
            }
            for alarm in seen.alarms.iter().filter(|alarm| known.insert(alarm.key())) {
                watch.stage("reducing a finding");
                let finding = reduce(stage, search, alarm, &seen.decisions());
                found(&finding)?;
                report.findings.push(finding);
                watch.stage("exploring");
            }
        }
        let windows: u64 = report.rows.iter().map(|row| row.windows).sum();
        watch.line(&format!("{windows} windows, {} findings", report.findings.len()));
        moment += 1;
        stage.advance(STRIDE);
    }
    report.moments = moment;
    Ok(report)
}

fn windows_of_a_moment() -> u64 {
    SHARES.iter().map(|(_, count)| count).sum()
}

/// A finding of what a window at this moment showed.
fn reduce(
    stage: &mut Stage,
    search: &Search,
    alarm: &Alarm,
    decisions: &[board::perturb::Decision],
) -> Finding {
    let key: Key = alarm.key();
    let (kept, seen, _) = minimise(stage, &key, decisions);
    // The reduction keeps to the cause; should it have run out of windows, all of it is kept.
    let alarm = seen.alarm(&key).unwrap_or(alarm).clone();
    let (seen, records) = stage.record(Source::Plan(kept.clone()));
    let lanes = lanes::draw(&alarm, &records);
    let story = story::tell(&alarm, &seen, &records, &stage.symbols);
    Finding {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").into(),
        words: search.words.clone(),
        release: stage.release.clone(),
        mix: search.mix.clone(),
        begins: stage.now(),
        before: hash(stage.hash()),
        drawn: decisions.len(),
        decisions: kept,
        alarm,
        after: hash(seen.hash),
        story,
        lanes,
    }
}

impl Row {
    fn see(&mut self, key: Key) {
        let spent = self.spent;
        self.first.entry(key).or_insert(spent);
    }
}

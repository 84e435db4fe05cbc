//! What came of a search, as data: docs/schema/lab-explore-1.json.

mod forms;

use super::choice::Strategy;
use super::finding::{Finding, cause, hash};
use super::moment::{Moment, Window};
use super::oracle::{Changes, End, Rule};
use super::search::Search;
use super::stage::Stage;
use super::tally::{Coverage, Tally};
use super::window::{LENGTH, TAIL};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::time::Duration;

/// What came of a search.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// [`Self::SCHEMA`].
    pub schema: u32,
    /// Of the program.
    pub version: String,
    /// Of the host's kernel.
    pub release: String,
    /// The options that say which host it is.
    pub words: Vec<String>,
    /// Where all numbers came from.
    pub seed: u64,
    /// Which of how many parts of the search this is.
    pub shard: (u64, u64),
    /// What the search took of this machine's processors, with the way to moments and reductions;
    /// not the boot.
    #[serde(rename = "cpu_seconds", serialize_with = "seconds")]
    #[cfg_attr(test, schemars(with = "f64"))]
    pub spent: Duration,
    /// By strategy.
    #[serde(rename = "strategies")]
    pub rows: Vec<Row>,
    /// Of all strategies: the orders of two events that were seen.
    pub coverage: Coverage,
    /// In so many windows the strategy with the fewest was.
    #[serde(skip)]
    pub(super) even: u64,
    /// By strategy.
    #[serde(skip)]
    pub(super) tallies: Vec<Tally>,
    /// Of all.
    #[serde(skip)]
    pub(super) tally: Tally,
    /// Whether the host was to change things.
    #[serde(skip)]
    pub(super) changes: bool,
    /// How the guest ended: no window follows, whatever was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// Each window, in the order of their numbers.
    pub windows: Vec<WindowRow>,
    /// Each cause once, by name.
    pub findings: Vec<Found>,
}

/// What one strategy did.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Row {
    /// Which.
    pub strategy: Strategy,
    /// How many windows it ran.
    pub windows: u64,
    /// Their virtual time.
    pub virtual_milliseconds: u64,
    /// What they took of this machine's processors.
    #[serde(rename = "cpu_seconds", serialize_with = "seconds")]
    #[cfg_attr(test, schemars(with = "f64"))]
    pub spent: Duration,
    /// How often a processor was held up.
    pub holds: u64,
    /// What the host changed.
    pub changes: Changes,
    /// The orders of two events that it showed.
    pub coverage: Coverage,
    /// As many as it showed in its first windows, of which there are as many as the strategy with
    /// the fewest has.
    pub even_pairs: u64,
    /// What it saw, by name.
    pub causes: BTreeMap<String, First>,
}

/// When a strategy saw a cause first.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct First {
    /// In which of its windows, from 1.
    pub windows: u64,
    /// What it had spent by then.
    #[serde(rename = "cpu_seconds", serialize_with = "seconds")]
    #[cfg_attr(test, schemars(with = "f64"))]
    pub spent: Duration,
}

/// A window.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WindowRow {
    /// Its number in the whole search.
    pub window: u64,
    /// How its decisions were drawn.
    pub strategy: Strategy,
    /// Of all that had happened by its end.
    pub hash: String,
    /// How often a processor was held up.
    pub holds: u64,
    /// How many orders of two events it showed.
    pub pairs: u64,
    /// How many of them no earlier window of the same moment did.
    pub fresh: u64,
    /// What was seen, by name.
    pub causes: Vec<String>,
    /// What it took of this machine's processors.
    #[serde(rename = "cpu_seconds", serialize_with = "seconds")]
    #[cfg_attr(test, schemars(with = "f64"))]
    pub spent: Duration,
}

/// A finding; all of it is in its file.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Found {
    /// Its name: that of its file, without `.json`.
    pub cause: String,
    /// The rule that was broken.
    pub rule: Rule,
    /// The window that showed it first.
    pub window: u64,
    /// How the decisions of that were drawn.
    pub strategy: Strategy,
    /// So many decisions that had.
    pub drawn: usize,
    /// Those that it needs, in words.
    pub decisions: Vec<String>,
    /// It told in a few lines.
    pub story: Vec<String>,
    /// What the two processors did meanwhile.
    pub lanes: Vec<String>,
}

pub(super) fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

impl Report {
    /// Version of this form.
    pub const SCHEMA: u32 = 1;

    pub(super) fn new(stage: &Stage, search: &Search) -> Self {
        Self {
            schema: Self::SCHEMA,
            version: env!("CARGO_PKG_VERSION").into(),
            release: stage.release.clone(),
            words: search.words.clone(),
            seed: search.seed,
            shard: search.shard,
            spent: Duration::ZERO,
            rows: Strategy::ALL.map(Row::new).to_vec(),
            coverage: Coverage::default(),
            even: 0,
            tallies: vec![Tally::default(); Strategy::ALL.len()],
            tally: Tally::default(),
            changes: !search.mix.changes.is_none(),
            end: None,
            windows: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Takes in what came of a moment, behind all that stand before it.
    pub(super) fn take(&mut self, moment: &Moment) {
        if self.end.is_none() {
            self.end.clone_from(&moment.end);
        }
        for window in &moment.windows {
            self.rows[window.strategy as usize].take(window);
            self.tallies[window.strategy as usize].take(&window.pairs);
            self.tally.take(&window.pairs);
            self.windows.push(WindowRow::of(window));
        }
    }

    /// Counts what was seen.
    pub(super) fn count(&mut self) {
        let began = self.rows.iter().map(|row| row.windows).filter(|windows| *windows > 0);
        self.even = began.min().unwrap_or(0);
        for (index, row) in self.rows.iter_mut().enumerate() {
            let others = self.tallies.iter().enumerate().filter(|(other, _)| *other != index);
            row.coverage = self.tallies[index].coverage(others.map(|(_, tally)| tally));
            row.even_pairs = self.tallies[index].in_first(self.even);
        }
        self.coverage = self.tally.coverage([].into_iter());
    }

    /// Whether no finding of an earlier window shows the same.
    pub(super) fn is_first(&self, finding: &Finding) -> bool {
        let cause = finding.cause();
        let known = self.findings.iter().find(|known| known.cause == cause);
        known.is_none_or(|known| finding.window < known.window)
    }

    pub(super) fn keep(&mut self, finding: Finding) {
        let found = Found {
            cause: finding.cause(),
            rule: finding.alarm.rule,
            window: finding.window,
            strategy: finding.strategy,
            drawn: finding.drawn,
            decisions: finding.decisions.iter().map(ToString::to_string).collect(),
            story: finding.story,
            lanes: finding.lanes,
        };
        self.findings.retain(|known| known.cause != found.cause);
        self.findings.push(found);
        self.findings.sort_by(|one, other| one.cause.cmp(&other.cause));
    }
}

impl Row {
    pub(super) fn new(strategy: Strategy) -> Self {
        Self {
            strategy,
            windows: 0,
            virtual_milliseconds: 0,
            spent: Duration::ZERO,
            holds: 0,
            changes: Changes::default(),
            coverage: Coverage::default(),
            even_pairs: 0,
            causes: BTreeMap::new(),
        }
    }

    fn take(&mut self, window: &Window) {
        const MILLISECOND: u64 = 1_000_000_000;
        self.windows += 1;
        self.virtual_milliseconds += (LENGTH.0 + TAIL.0) / MILLISECOND;
        self.spent += window.spent;
        self.holds += window.holds;
        self.changes.add(window.changes);
        for key in &window.alarms {
            let first = First { windows: self.windows, spent: self.spent };
            self.causes.entry(cause(key)).or_insert(first);
        }
    }
}

impl WindowRow {
    fn of(window: &Window) -> Self {
        let mut causes: Vec<String> = window.alarms.iter().map(cause).collect();
        causes.sort();
        causes.dedup();
        Self {
            window: window.number,
            strategy: window.strategy,
            hash: hash(window.hash),
            holds: window.holds,
            pairs: window.pairs.len() as u64,
            fresh: window.fresh,
            causes,
            spent: window.spent,
        }
    }
}

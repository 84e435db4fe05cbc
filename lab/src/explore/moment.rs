//! A moment of the plain run, and the windows that begin there.

use super::choice::Strategy;
use super::conflict::Conflicts;
use super::coverage::{self, Pair};
use super::finding::{Finding, Place, SCHEMA, hash};
use super::guide::Guide;
use super::lanes;
use super::meter;
use super::minimise::minimise;
use super::oracle::{Alarm, Changes, End, Key, Rule};
use super::search::Search;
use super::stage::Stage;
use super::story;
use super::window::Seen;
use arch::time::Picoseconds;
use board::perturb::{Decision, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use trace::Record;

/// Between two moments from which windows begin.
const STRIDE: Picoseconds = Picoseconds::from_nanoseconds(3_100_000);
/// Windows of one moment: of each kind how many.
const SHARES: [(Strategy, u64); 5] = [
    // A second one would be the same. Another moment shows more than many windows of this one.
    (Strategy::Plain, 1),
    (Strategy::Random, 2),
    (Strategy::Directed, 2),
    (Strategy::Guided, 2),
    // Its study takes longer than a window.
    (Strategy::Conflict, 8),
];
/// All of them.
pub(super) const WINDOWS: u64 = {
    let (mut all, mut at) = (0, 0);
    while at < SHARES.len() {
        all += SHARES[at].1;
        at += 1;
    }
    all
};
/// The same of a strategy that is tried alone.
const ALONE: u64 = 2;
/// The same of guided, the first of which has nothing to draw on and is as directed draws.
const GUIDED_ALONE: u64 = 4;

/// Windows of one moment, of one strategy alone or of all.
fn shares(alone: Option<Strategy>) -> Vec<(Strategy, u64)> {
    match alone {
        None => SHARES.to_vec(),
        Some(Strategy::Plain) => vec![(Strategy::Plain, 1)],
        Some(Strategy::Guided) => vec![(Strategy::Guided, GUIDED_ALONE)],
        Some(Strategy::Conflict) => vec![SHARES[4]],
        Some(strategy) => vec![(strategy, ALONE)],
    }
}

/// What came of it.
pub(super) struct Moment {
    pub number: u64,
    /// In the order of their numbers.
    pub windows: Vec<Window>,
    /// Causes that no earlier window was known to show.
    pub findings: Vec<Finding>,
    /// How the guest had ended by then; there are no windows then.
    pub end: Option<End>,
}

impl Moment {
    /// Whether its last window shows a cause.
    pub fn shows(&self, sought: Sought<'_>) -> bool {
        self.windows.last().is_some_and(|window| window.alarms.iter().any(sought))
    }
}

/// What came of a window.
pub(super) struct Window {
    pub number: u64,
    pub strategy: Strategy,
    /// Of all that had happened by its end.
    pub hash: u64,
    pub holds: u64,
    pub changes: Changes,
    pub alarms: Vec<Key>,
    /// The orders of two events that it showed.
    pub pairs: BTreeSet<Pair>,
    /// How many of them no earlier window of the moment did.
    pub fresh: u64,
    /// What it took of this machine's processors.
    pub spent: Duration,
}

/// A cause that is looked for.
pub(super) type Sought<'a> = &'a (dyn Fn(&Key) -> bool + Sync);

/// What is done at every moment.
pub(super) struct Work<'a> {
    pub search: &'a Search,
    /// By cause: the first window that is known to show it.
    pub known: &'a Mutex<BTreeMap<Key, u64>>,
    /// Whether the search is to end.
    pub is_over: &'a (dyn Fn() -> bool + Sync),
    /// What alone is of interest: nothing is reduced, and windows end with the first that shows it.
    pub sought: Option<Sought<'a>>,
    /// The one strategy that is tried; none is all.
    pub alone: Option<Strategy>,
}

/// What is known of a moment by its earlier windows.
#[derive(Default)]
struct Known {
    guide: Guide,
    conflicts: Option<Conflicts>,
}

impl Known {
    /// What the next window decides, by a strategy that draws on what is known.
    fn propose(&mut self, stage: &mut Stage, strategy: Strategy, seed: u64) -> Option<Source> {
        match strategy {
            Strategy::Plain | Strategy::Random | Strategy::Directed => None,
            Strategy::Guided => self.guide.propose(seed),
            Strategy::Conflict => {
                let study = || Conflicts::of(&stage.study());
                self.conflicts.get_or_insert_with(study).propose(seed)
            }
        }
    }
}

impl Work<'_> {
    /// Brings a stage to a moment of the run that it came from, and runs its windows.
    pub fn moment(&self, stage: &mut Stage, first: Picoseconds, number: u64) -> Moment {
        let begins = Picoseconds(first.0.saturating_add(number.saturating_mul(STRIDE.0)));
        let mut moment = Moment { number, windows: Vec::new(), findings: Vec::new(), end: None };
        moment.end = stage.end();
        while moment.end.is_none() && stage.now() < begins {
            if (self.is_over)() {
                return moment;
            }
            let step = stage.now().saturating_add(STRIDE).min(begins);
            stage.advance_to(step);
            moment.end = stage.end();
        }
        if moment.end.is_some() {
            return moment;
        }
        let mut known = Known::default();
        let shares = shares(self.alone);
        let each: u64 = shares.iter().map(|(_, count)| count).sum();
        let all = shares.iter().flat_map(|(strategy, count)| (0..*count).map(|_| *strategy));
        for (number, strategy) in (number * each..).zip(all) {
            if (self.is_over)() || self.search.windows.is_some_and(|most| number >= most) {
                break;
            }
            self.window(stage, &mut known, (number, strategy), &mut moment);
            if self.sought.is_some_and(|sought| moment.shows(sought)) {
                break;
            }
        }
        moment
    }

    fn window(
        &self,
        stage: &mut Stage,
        known: &mut Known,
        (number, strategy): (u64, Strategy),
        moment: &mut Moment,
    ) {
        let seed = self.search.seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let started = meter::spent();
        let proposed = known.propose(stage, strategy, seed);
        let (seen, records) = stage.record(proposed.unwrap_or_else(|| strategy.source(seed)));
        let pairs = coverage::pairs(stage.now(), records);
        let fresh = known.guide.learn(seen.decisions(), &pairs);
        let spent = meter::spent().saturating_sub(started);
        let told = seen.alarms.iter().filter(|_| self.sought.is_none());
        for alarm in told.filter(|alarm| self.is_first(alarm.key(), number)) {
            let finding = self.reduce(stage, alarm, &seen, (number, strategy));
            moment.findings.push(finding);
        }
        moment.windows.push(Window {
            number,
            strategy,
            hash: seen.hash,
            holds: seen.decisions().iter().filter(|one| one.delay.0 > 0).count() as u64,
            changes: seen.changes,
            alarms: seen.alarms.iter().map(Alarm::key).collect(),
            pairs: pairs.into_keys().collect(),
            fresh,
            spent,
        });
    }

    /// Whether no earlier window shows a cause, as far as is known; this one is known from now on.
    fn is_first(&self, key: Key, number: u64) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = known.get(&key).is_none_or(|earlier| number < *earlier);
        if is_first {
            known.insert(key, number);
        }
        is_first
    }

    /// A finding of what a window at this moment showed.
    fn reduce(
        &self,
        stage: &mut Stage,
        alarm: &Alarm,
        seen: &Seen,
        (window, strategy): (u64, Strategy),
    ) -> Finding {
        let key: Key = alarm.key();
        let decisions: Vec<Decision> = seen.decisions();
        let (kept, seen, _) = minimise(stage, &key, &decisions);
        // The reduction keeps to the cause; should it have run out of windows, all of it is kept.
        let alarm = seen.alarm(&key).unwrap_or(alarm).clone();
        let (seen, records) = stage.record(Source::Plan(kept.clone()));
        let lanes = lanes::draw(&alarm, &records);
        let mut story = story::tell(&alarm, &seen, &records, &stage.symbols);
        if alarm.rule == Rule::Asleep {
            let plan = Source::Plan(kept.clone());
            let is_entry = |record: &Record| story::is_entry(&alarm, record);
            story[0] += &story::fate(&alarm, &stage.beyond(plan, story::AFTERWARDS, is_entry));
        }
        let places = Place::of(&seen, &alarm, &stage.symbols);
        Finding {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").into(),
            words: self.search.words.clone(),
            release: stage.release.clone(),
            mix: self.search.mix.clone(),
            window,
            strategy,
            begins: stage.now(),
            before: hash(stage.hash()),
            drawn: decisions.len(),
            decisions: kept,
            places,
            alarm,
            after: hash(seen.hash),
            story,
            lanes,
        }
    }
}

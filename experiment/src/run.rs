//! Runs an experiment: what is left of its schedule, several trials at once where the place lets
//! it, each written down before and after.
//!
//! What is run never depends on which trial ended first: whether a cell is given up and whether
//! there has been enough are decided between stages of whole blocks. So `--jobs` changes nothing
//! but how long it takes.

use crate::answer::Answer;
use crate::journal::{self, Entry, Head, Journal, Kept, Outcome, Written};
use crate::place::{Change, Failure, Place, Seen, Teller};
use crate::plan::Plan;
use crate::schedule::{Choice, Schedule, Trial};
use crate::statistics::levels;
use crate::{proof, reading};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A trial that was disturbed is tried so often in all.
const MOST_ATTEMPTS: u32 = 3;

/// What a journal says of its trials.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// The last attempt that ended, by the trial's index.
    pub ended: BTreeMap<usize, (u32, Outcome, Kept)>,
    /// The number of the next attempt.
    attempts: BTreeMap<usize, u32>,
    /// Attempts at a trial that ended because something disturbed them.
    disturbed: BTreeMap<usize, u32>,
    /// What was changed and not put back.
    pub changes: Vec<Change>,
    /// Whether nothing is left to do.
    pub is_finished: bool,
    /// Attempts that did not end.
    pub interrupted: usize,
}

impl State {
    /// From the lines of a journal.
    pub fn of(written: &[Written]) -> Self {
        let mut state = Self::default();
        written.iter().for_each(|line| state.take(&line.entry));
        state
    }

    fn take(&mut self, entry: &Entry) {
        match entry {
            Entry::Begun(_) | Entry::Stopped { .. } => {}
            Entry::Started { trial, attempt, .. } => {
                self.attempts.insert(*trial, attempt + 1);
                self.interrupted += 1;
            }
            Entry::Changed { change } => self.changes.push(change.clone()),
            Entry::Ended { trial, attempt, outcome, kept } => {
                self.interrupted = self.interrupted.saturating_sub(1);
                if matches!(outcome, Outcome::Void(void) if !void.is_without_effect) {
                    *self.disturbed.entry(*trial).or_default() += 1;
                }
                self.ended.insert(*trial, (*attempt, outcome.clone(), kept.clone()));
            }
            Entry::Restored => self.changes.clear(),
            Entry::Finished => self.is_finished = true,
        }
    }

    /// Whether a trial needs no other attempt.
    fn is_over(&self, trial: usize) -> bool {
        match self.ended.get(&trial) {
            None => false,
            Some((_, Outcome::Done, _)) => true,
            Some((_, Outcome::Void(void), _)) => {
                void.is_without_effect
                    || self.disturbed.get(&trial).is_some_and(|count| *count >= MOST_ATTEMPTS)
            }
            Some((_, Outcome::Failed { .. }, _)) => false,
        }
    }
}

/// What an experiment tells the user who waits.
#[derive(Debug)]
pub enum Told<'a> {
    /// A line was written to the journal.
    Entry(&'a Entry, &'a Progress),
    /// Something happens in a trial.
    Line(&'a str),
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Trials that are over, void ones too.
    pub over: usize,
    /// Of them, void.
    pub void: usize,
    /// In all, if none is spared.
    pub all: usize,
    /// Over since this process began, by which it may tell when it ends.
    pub over_now: usize,
}

/// Why an experiment ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// The user has asked for it.
    #[error("interrupted")]
    Interrupted,
    /// A trial failed, and so would others.
    #[error("trial {trial}: {why}")]
    Failed {
        /// Its index.
        trial: usize,
        /// What was said.
        why: String,
    },
}

/// An experiment with its journal.
pub struct Experiment<'p> {
    /// What is to be done.
    pub plan: &'p Plan,
    /// Beside the plan.
    pub choice: Choice,
    /// All trials.
    pub schedule: Schedule,
    /// What the journal began with.
    pub head: Head,
    /// What the journal says.
    pub state: State,
}

impl<'p> Experiment<'p> {
    /// As its head says.
    pub fn new(plan: &'p Plan, head: Head, written: &[Written]) -> Self {
        let choice = Choice { same: head.same.clone(), seed: head.seed, blocks: head.blocks };
        let schedule = Schedule::new(plan, &choice, head.place == "lab");
        Self { plan, choice, schedule, head, state: State::of(written) }
    }

    /// What is known so far.
    pub fn answer(&self) -> Answer {
        Answer::of(self)
    }

    /// Blocks after which the cells that are hopeless are given up, and after which to look.
    fn stages(&self) -> Vec<usize> {
        let all = self.schedule.blocks;
        let looks =
            self.plan.design.looks.iter().copied().filter(|look| self.looks() && *look < all);
        let mut stages: Vec<usize> = looks.chain([self.plan.design.voids, all]).collect();
        stages.retain(|blocks| *blocks <= all);
        stages.sort_unstable();
        stages.dedup();
        stages
    }

    /// A share of an experiment does not know the others' trials: it looks at the end alone.
    fn looks(&self) -> bool {
        self.head.shard.is_none() && self.choice.same.is_none() && self.plan.design.looks.len() > 1
    }

    /// The level at which the experiment is judged after so many blocks.
    pub fn level_after(&self, blocks: usize) -> f64 {
        let design = &self.plan.design;
        if !self.looks() {
            return design.level;
        }
        let mut looks = design.looks.clone();
        looks.retain(|look| *look < self.schedule.blocks);
        looks.push(self.schedule.blocks);
        let own = looks.iter().position(|look| *look >= blocks).unwrap_or(looks.len() - 1);
        levels(design.level, &looks)[own]
    }

    /// Cells in which an arm was void in each trial of the first blocks, and which arm.
    pub fn hopeless(&self) -> BTreeMap<usize, usize> {
        let first = self.plan.design.voids.min(self.schedule.blocks);
        let is_void = |trial: &Trial| match self.state.ended.get(&trial.index) {
            Some((_, Outcome::Void(void), _)) => void.is_without_effect,
            _ => false,
        };
        let arms = (0..self.schedule.cells.len()).flat_map(|cell| [(cell, 1), (cell, 0)]);
        let all_void = |(cell, arm): &(usize, usize)| {
            let early = self.schedule.trials.iter().filter(|trial| trial.block < first);
            let mut own = early.filter(|trial| trial.cell == *cell && trial.arm == *arm);
            own.all(is_void)
        };
        arms.filter(all_void).collect()
    }

    /// Trials of a stage that are still to be run.
    fn left(&self, blocks: usize) -> VecDeque<Trial> {
        let hopeless = self.hopeless();
        let is_own =
            |trial: &&Trial| self.head.shard.is_none_or(|(own, all)| trial.index % all == own);
        let voids = self.plan.design.voids;
        let is_given_up =
            |trial: &Trial| hopeless.contains_key(&trial.cell) && trial.block >= voids;
        let trials = self.schedule.trials.iter().filter(|trial| trial.block < blocks);
        let trials = trials.filter(is_own).filter(|trial| !is_given_up(trial));
        trials.filter(|trial| !self.state.is_over(trial.index)).cloned().collect()
    }

    fn progress(&self, over_before: usize) -> Progress {
        let over = self.state.ended.keys().filter(|trial| self.state.is_over(**trial)).count();
        let is_void = |one: &&(u32, Outcome, Kept)| matches!(one.1, Outcome::Void(_));
        let shards = self.head.shard.map_or(1, |(_, all)| all);
        Progress {
            over,
            void: self.state.ended.values().filter(is_void).count(),
            all: self.schedule.trials.len().div_ceil(shards),
            over_now: over - over_before.min(over),
        }
    }

    /// Runs what is left, `jobs` trials at once, until there is enough or `stop` is raised. What
    /// was changed is put back whatever happens.
    pub fn run(
        &mut self,
        place: &dyn Place,
        journal: &mut Journal,
        jobs: usize,
        stop: &AtomicBool,
        tell: &mut (dyn FnMut(Told<'_>) + Send),
    ) -> Result<(), Error> {
        let over_before = self.progress(0).over;
        let shared = Shared { journal, experiment: self, tell, over_before };
        let shared = Mutex::new(shared);
        let result = stages(&shared, place, jobs, stop);
        let mut shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        let restored = restore(&mut shared, place);
        match (&result, &restored) {
            (Ok(()), Ok(())) => shared.write(&Entry::Finished)?,
            (Err(error), _) | (Ok(()), Err(error)) => {
                shared.write(&Entry::Stopped { why: error.to_string() })?;
            }
        }
        result.and(restored)
    }

    /// Puts back what an experiment that did not end has changed; how many changes those were.
    pub fn restore(&mut self, place: &dyn Place, journal: &mut Journal) -> Result<usize, Error> {
        let count = self.state.changes.len();
        let mut ignore = |_: Told<'_>| {};
        let mut shared = Shared { journal, experiment: self, tell: &mut ignore, over_before: 0 };
        restore(&mut shared, place)?;
        Ok(count)
    }
}

/// What all jobs write to.
struct Shared<'s, 'p> {
    journal: &'s mut Journal,
    experiment: &'s mut Experiment<'p>,
    tell: &'s mut (dyn FnMut(Told<'_>) + Send),
    over_before: usize,
}

impl Shared<'_, '_> {
    fn write(&mut self, entry: &Entry) -> Result<(), Error> {
        self.journal.write(entry)?;
        self.experiment.state.take(entry);
        let progress = self.experiment.progress(self.over_before);
        (self.tell)(Told::Entry(entry, &progress));
        Ok(())
    }
}

fn lock<'l, 's, 'p>(
    shared: &'l Mutex<Shared<'s, 'p>>,
) -> std::sync::MutexGuard<'l, Shared<'s, 'p>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn restore(shared: &mut Shared<'_, '_>, place: &dyn Place) -> Result<(), Error> {
    let changes = shared.experiment.state.changes.clone();
    if changes.is_empty() {
        return Ok(());
    }
    let failed = |failure: Failure| Error::Failed { trial: 0, why: format!("restore: {failure}") };
    place.restore(&changes).map_err(failed)?;
    shared.write(&Entry::Restored)
}

fn stages(
    shared: &Mutex<Shared<'_, '_>>,
    place: &dyn Place,
    jobs: usize,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let stages = lock(shared).experiment.stages();
    for blocks in stages {
        // Those that were disturbed are repeated at the end of the stage.
        loop {
            let left = lock(shared).experiment.left(blocks);
            if left.is_empty() {
                break;
            }
            stage(shared, place, left, jobs, stop)?;
        }
        let shared = lock(shared);
        if shared.experiment.looks()
            && shared.experiment.plan.design.looks.contains(&blocks)
            && shared.experiment.answer().is_decided()
        {
            break;
        }
    }
    Ok(())
}

fn stage(
    shared: &Mutex<Shared<'_, '_>>,
    place: &dyn Place,
    left: VecDeque<Trial>,
    jobs: usize,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let left = Mutex::new(left);
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let has_failed = AtomicBool::new(false);
    let work = || -> Result<(), Error> {
        while !has_failed.load(Ordering::Relaxed) {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            let Some(trial) = next() else { break };
            if let Err(error) = attempt(shared, place, &trial) {
                has_failed.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    };
    if jobs <= 1 {
        return work();
    }
    std::thread::scope(|scope| {
        // Those that the system does not give are done without.
        let begin = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
        let workers: Vec<_> = (1..jobs).filter_map(begin).collect();
        let own = work();
        let results = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        std::iter::once(own).chain(results.collect::<Vec<_>>()).collect()
    })
}

/// One attempt at a trial, from the line that announces it to the line that tells its end.
fn attempt(shared: &Mutex<Shared<'_, '_>>, place: &dyn Place, trial: &Trial) -> Result<(), Error> {
    let (plan, attempt, seed) = {
        let mut shared = lock(shared);
        let experiment = &shared.experiment;
        let attempt = experiment.state.attempts.get(&trial.index).copied().unwrap_or(0);
        // An attempt that was interrupted is the same again: what it would have been is what
        // results are to be made of, whether it was interrupted or not.
        let seeded = experiment.state.disturbed.get(&trial.index).copied().unwrap_or(0);
        let seed = Schedule::seed(experiment.plan, &experiment.choice, trial, seeded);
        let plan = experiment.plan;
        let setting = trial.setting.clone();
        shared.write(&Entry::Started { trial: trial.index, attempt, seed, setting })?;
        (plan, attempt, seed)
    };
    let order = crate::place::Order { plan, setting: &trial.setting, seed, index: trial.index };
    let seen = place.perform(&order, &mut Telling { shared });
    let (outcome, kept) = match seen {
        Ok(seen) => judged(plan, trial, seen),
        Err(Failure::Interrupted) => return Err(Error::Interrupted),
        Err(Failure::Failed(why)) => (Outcome::Failed { why }, Kept::default()),
    };
    let failed = match &outcome {
        Outcome::Failed { why } => Some(why.clone()),
        _ => None,
    };
    lock(shared).write(&Entry::Ended { trial: trial.index, attempt, outcome, kept })?;
    failed.map_or(Ok(()), |why| Err(Error::Failed { trial: trial.index, why }))
}

/// What a trial comes to; one without a figure that it should have has failed.
fn judged(plan: &Plan, trial: &Trial, mut seen: Seen) -> (Outcome, Kept) {
    proof::take_output(plan, &mut seen);
    let void = proof::void(plan, &trial.setting, &seen);
    let figures = reading::figures(plan, &trial.setting, &seen);
    let outcome = match (void, &figures) {
        (Some(void), _) => Outcome::Void(void),
        (None, Err(why)) => Outcome::Failed { why: why.clone() },
        (None, Ok(_)) => Outcome::Done,
    };
    let figures = figures.unwrap_or_default();
    (outcome, Kept { figures, exits: seen.exits, evidence: seen.evidence })
}

/// Carries what a trial tells to where all write.
struct Telling<'t, 's, 'p> {
    shared: &'t Mutex<Shared<'s, 'p>>,
}

impl Teller for Telling<'_, '_, '_> {
    fn line(&mut self, text: &str) {
        (lock(self.shared).tell)(Told::Line(text));
    }

    fn change(&mut self, change: Change) -> Result<(), Failure> {
        let written = lock(self.shared).write(&Entry::Changed { change });
        written.map_err(|error| Failure::Failed(error.to_string()))
    }
}

#[cfg(test)]
mod tests;

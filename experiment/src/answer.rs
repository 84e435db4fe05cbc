//! What came of an experiment: an answer a cell and metric, from the trials that counted.
//!
//! Nothing here depends on when or in which order trials were run, so the answer of a journal is
//! the same bytes whatever `--jobs` was and whichever shards it was put together from.

mod beside;
mod coarse;
mod judge;
pub(crate) mod sentence;

pub use beside::Beside;
pub use judge::{MetricAnswer, Summary};

use crate::journal::Outcome;
use crate::place::{Evidence, Exits, Remark};
use crate::plan::Setting;
use crate::proof::Void;
use crate::run::Experiment;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that an experiment found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Answer {
    /// Of the form: docs/schema/experiment-1.json.
    pub schema: u32,
    /// Of the plan.
    pub name: String,
    /// Of the plan.
    pub question: String,
    /// The answer in one sentence.
    pub sentence: String,
    /// `lab` or `host`.
    pub place: String,
    /// Whether nothing is left to do; of shards, whether all are here.
    pub is_finished: bool,
    /// What was compared.
    pub compare: String,
    /// The levels, or one level twice.
    pub arms: [String; 2],
    /// Whether both arms were the same on purpose.
    pub is_same: bool,
    /// In the lab, what is smaller than in the published procedure.
    pub scale: String,
    /// Orders were drawn from it.
    pub seed: u64,
    /// That had all their trials.
    pub blocks: usize,
    /// That were planned.
    pub blocks_planned: usize,
    /// Chance of any wrong answer that was accepted.
    pub level: f64,
    /// Answers that were had at once, which Holm's correction is for.
    pub questions: usize,
    /// A cell each.
    pub cells: Vec<CellAnswer>,
    /// All of them, void ones too.
    pub trials: Vec<TrialRow>,
    /// What results rest on.
    pub provenance: BTreeMap<String, String>,
    /// What was known before.
    pub remarks: Vec<Remark>,
    /// The file.
    pub plan: String,
    /// Of that file.
    pub plan_hash: String,
}

/// What one cell came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CellAnswer {
    /// Levels of the factors that were not compared.
    pub cell: Setting,
    /// If an arm was void throughout: that is the answer.
    pub void: Option<VoidArm>,
    /// A metric each.
    pub metrics: Vec<MetricAnswer>,
    /// Exits of both arms by reason: means a trial, the most frequent first.
    pub exits: Vec<ExitRow>,
    /// What trials of each arm were, by evidence.
    pub evidence: BTreeMap<String, [String; 2]>,
}

/// An arm that never was what it was to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VoidArm {
    /// Its level.
    pub level: String,
    /// What was found.
    pub why: String,
    /// What would change it.
    pub fix: String,
    /// How many trials showed it.
    pub trials: usize,
}

/// Exits of one reason in both arms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExitRow {
    /// As KVM's tracepoints spell it.
    pub reason: String,
    /// Exits a trial, of the first and the second arm.
    pub counts: [Option<f64>; 2],
    /// Nanoseconds an exit, where known.
    pub nanoseconds: [Option<f64>; 2],
}

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TrialRow {
    /// Its index.
    pub trial: usize,
    /// From 0 on.
    pub block: usize,
    /// Its place in [`Answer::cells`].
    pub cell: usize,
    /// 0 or 1.
    pub arm: usize,
    /// By metric.
    pub figures: BTreeMap<String, f64>,
    /// Why it does not count, if it does not.
    pub void: Option<String>,
}

/// A trial with what became of it.
pub(crate) struct Over<'e> {
    row: TrialRow,
    void: Option<&'e Void>,
    exits: &'e BTreeMap<String, Exits>,
    evidence: &'e BTreeMap<String, Evidence>,
}

impl Answer {
    /// The version of the JSON form.
    pub const SCHEMA: u32 = 1;

    /// What is known so far.
    pub(crate) fn of(experiment: &Experiment<'_>) -> Self {
        let (plan, schedule) = (experiment.plan, &experiment.schedule);
        let over = over(experiment);
        let blocks = whole_blocks(&over, schedule.cells.len() * 2 * plan.design.repeats);
        let level = experiment.level_after(blocks);
        let judge = judge::Judge {
            plan,
            level,
            is_lab: experiment.head.place == "lab",
            seed: experiment.choice.seed.unwrap_or(plan.seed),
            is_same: experiment.choice.same.is_some(),
        };
        let mut cells: Vec<CellAnswer> = schedule
            .cells
            .iter()
            .enumerate()
            .map(|(index, cell)| {
                let own: Vec<&Over<'_>> = over.iter().filter(|one| one.row.cell == index).collect();
                judge.cell(cell, &own, &schedule.arms)
            })
            .collect();
        let questions = judge.correct(&mut cells);
        let mut answer = Self {
            schema: Self::SCHEMA,
            name: plan.name.clone(),
            question: plan.question.clone(),
            sentence: String::new(),
            place: experiment.head.place.clone(),
            is_finished: experiment.state.is_finished,
            compare: plan.design.compare.clone(),
            arms: schedule.arms.clone(),
            is_same: experiment.choice.same.is_some(),
            scale: plan
                .lab
                .as_ref()
                .filter(|_| judge.is_lab)
                .map_or(String::new(), |lab| lab.scale.clone()),
            seed: judge.seed,
            blocks,
            blocks_planned: schedule.blocks,
            level,
            questions,
            cells,
            trials: over.into_iter().map(|one| one.row).collect(),
            provenance: experiment.head.provenance.clone(),
            remarks: experiment.head.remarks.clone(),
            plan: plan.text.clone(),
            plan_hash: plan.hash(),
        };
        answer.sentence = sentence::of(&answer);
        answer
    }

    /// Whether no more blocks would change an answer.
    pub fn is_decided(&self) -> bool {
        let metrics = |cell: &CellAnswer| {
            cell.void.is_some() || cell.metrics.iter().all(|one| one.is_decided())
        };
        self.cells.iter().all(metrics)
    }

    /// In the form of docs/schema/experiment-1.json.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}

/// Trials that are over, but not what a share of an experiment ran after its other shares had
/// given the cell up.
fn over<'e>(experiment: &'e Experiment<'_>) -> Vec<Over<'e>> {
    let hopeless = experiment.hopeless();
    let voids = experiment.plan.design.voids;
    let trials = experiment.schedule.trials.iter();
    let trials = trials.filter(|trial| !hopeless.contains_key(&trial.cell) || trial.block < voids);
    let over = trials.filter_map(|trial| {
        let (_, outcome, kept) = experiment.state.ended.get(&trial.index)?;
        let void = match outcome {
            Outcome::Done => None,
            Outcome::Void(void) => Some(void),
            Outcome::Failed { .. } => return None,
        };
        let row = TrialRow {
            trial: trial.index,
            block: trial.block,
            cell: trial.cell,
            arm: trial.arm,
            figures: kept.figures.clone(),
            void: void.map(|void| void.why.clone()),
        };
        Some(Over { row, void, exits: &kept.exits, evidence: &kept.evidence })
    });
    over.collect()
}

/// Blocks, from the first on, whose trials are all over.
fn whole_blocks(over: &[Over<'_>], trials: usize) -> usize {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for one in over {
        *counts.entry(one.row.block).or_default() += 1;
    }
    // Cells that were given up have fewer trials: a block that was begun counts from then on.
    let most = counts.values().copied().max().unwrap_or(trials);
    let least = counts.values().copied().min().unwrap_or(trials).min(most);
    counts.values().filter(|count| **count >= least.max(1)).count()
}

/// What the plan's arms are called in sentences.
pub(crate) fn arm_words(compare: &str, level: &str) -> String {
    format!("{compare} {level}")
}

#[cfg(test)]
mod tests {
    use super::Answer;
    use crate::journal::{self, Entry};

    #[test]
    fn the_published_schemas_are_those_of_the_types() {
        let schema =
            schema::of::<Answer>("avicenna experiment report --format json", Answer::SCHEMA);
        schema::assert_published("experiment-1.json", &schema);
        let lines = schema::plain::<Entry>(
            "avicenna experiment run --format json, a line",
            journal::SCHEMA,
        );
        schema::assert_published("experiment-line-1.json", &lines);
    }
}

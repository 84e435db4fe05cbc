//! From trials to answers.

use super::beside::{self, Beside};
use super::coarse;
use super::{CellAnswer, ExitRow, Over, VoidArm};
use crate::place::Evidence;
use crate::plan::{Metric, Plan, Setting};
use crate::statistics::{Effect, Margin, Verdict, decide, effect, holm, median};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The values of one arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Summary {
    /// In the middle.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
    /// How many trials.
    pub trials: usize,
}

/// What a metric came to in one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MetricAnswer {
    /// As the plan calls it.
    pub name: String,
    /// Of its values.
    pub unit: String,
    /// None where neither way is good by itself.
    pub less_is_better: Option<bool>,
    /// Whether values are counts of an emulated machine, or predictions that never vary: they have
    /// no error, so no interval.
    pub is_exact: bool,
    /// Whether values are times of an emulated machine, which a cost model predicts.
    pub is_predicted: bool,
    /// Of the first arm; None without a trial that counts.
    pub before: Option<Summary>,
    /// Of the second arm.
    pub after: Option<Summary>,
    /// None without a block that has both.
    pub effect: Option<Effect>,
    /// None where there is nothing to judge by.
    pub verdict: Option<Verdict>,
    /// What does not matter, for the sentence.
    pub margin: Margin,
    /// In the unit of the effect: the steps in which the program prints its figure, where they are
    /// too coarse to judge by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<f64>,
    /// Figures of others.
    pub published: Vec<Beside>,
}

impl MetricAnswer {
    /// Whether more blocks would change nothing; what is not judged is decided.
    pub fn is_decided(&self) -> bool {
        let is_open = matches!(self.verdict, Some(Verdict::Undecided { .. }) | None);
        self.less_is_better.is_none() || !is_open
    }

    /// Keeps `steps` only where they take the verdict back.
    fn withdraw_if_coarse(&mut self) {
        let step = self.steps.take();
        if let (Some(effect), Some(verdict), Some(step)) = (&self.effect, self.verdict, step) {
            let first = self.before.as_ref().map_or(0.0, |before| before.median);
            let (is_exact, margin) = (self.is_exact, self.margin);
            self.steps = coarse::too_coarse(step, first, effect, is_exact, margin, verdict);
        }
        if self.steps.is_some() {
            self.verdict = Some(Verdict::Undecided { more_blocks: None });
        }
    }
}

pub(super) struct Judge<'p> {
    pub(super) plan: &'p Plan,
    pub(super) level: f64,
    pub(super) is_lab: bool,
    pub(super) seed: u64,
    pub(super) is_same: bool,
}

impl Judge<'_> {
    pub(super) fn cell(&self, cell: &Setting, own: &[&Over<'_>], arms: &[String; 2]) -> CellAnswer {
        let void = [1, 0].into_iter().find_map(|arm| void_arm(own, arm, &arms[arm]));
        let metrics = self.plan.metrics_of(cell).filter_map(|metric| {
            let found = self.metric(metric, cell, own);
            let is_absent = metric.is_optional && found.before.is_none() && found.after.is_none();
            (!is_absent).then_some(found)
        });
        CellAnswer {
            cell: cell.clone(),
            void,
            metrics: metrics.collect(),
            exits: exits(own),
            evidence: evidence(own),
        }
    }

    fn metric(&self, metric: &Metric, cell: &Setting, own: &[&Over<'_>]) -> MetricAnswer {
        let values = |arm: usize| -> Vec<f64> {
            let counted = own.iter().filter(|one| one.void.is_none() && one.row.arm == arm);
            counted.filter_map(|one| one.row.figures.get(&metric.name).copied()).collect()
        };
        let (before, after) = (summary(&values(0)), summary(&values(1)));
        let margin = match metric.absolute {
            Some(size) => Margin::Absolute(size),
            None => Margin::Percent(metric.difference.unwrap_or(self.plan.design.difference)),
        };
        let pairs = pairs(metric, own);
        // One trial of each arm cannot show that values do not vary.
        let is_alike = pairs.len() > 1 && is_constant(&[&before, &after]);
        let is_exact = self.is_lab && (metric.source.is_count() || is_alike);
        let exact = is_exact.then(|| exact(&pairs, &before, &after, margin, metric.less_is_better));
        let (effect, verdict, is_exact) = match exact.flatten() {
            Some((effect, verdict)) => (Some(effect), Some(verdict), true),
            // Decided once all questions are known.
            None => (effect(&pairs, 1.0 - self.level, self.seed), None, false),
        };
        let published = if self.is_same {
            Vec::new()
        } else {
            beside::of(self.plan, metric, cell, &before, &after, effect.as_ref())
        };
        MetricAnswer {
            name: metric.name.clone(),
            unit: metric.unit.clone(),
            less_is_better: metric.less_is_better,
            is_exact,
            is_predicted: self.is_lab && !metric.source.is_count(),
            before,
            after,
            effect,
            verdict,
            margin,
            steps: coarse::step(metric, &[values(0), values(1)].concat()),
            published,
        }
    }

    /// Corrects for all questions that are asked at once, and decides them; how many there are.
    /// What is not judged (neither way is good) is described and takes no part.
    pub(super) fn correct(&self, cells: &mut [CellAnswer]) -> usize {
        let mut open: Vec<&mut MetricAnswer> = cells
            .iter_mut()
            .flat_map(|cell| &mut cell.metrics)
            .filter(|one| !one.is_exact)
            .collect();
        let is_asked = |one: &&mut MetricAnswer| one.less_is_better.is_some();
        let test = |one: &MetricAnswer| one.effect.as_ref()?.test.map(|test| test.p);
        let values: Vec<f64> =
            open.iter().filter(|one| is_asked(one)).filter_map(|one| test(one)).collect();
        let questions = values.len();
        let mut adjusted = holm(&values).into_iter();
        for one in &mut open {
            let is_asked = is_asked(one);
            let Some(effect) = one.effect.as_mut().filter(|effect| effect.test.is_some()) else {
                continue;
            };
            if is_asked {
                effect.adjusted_p = adjusted.next();
            }
            one.verdict = Some(decide(effect, one.margin, self.level, one.less_is_better));
        }
        for one in cells.iter_mut().flat_map(|cell| &mut cell.metrics) {
            one.withdraw_if_coarse();
        }
        questions
    }
}

fn summary(values: &[f64]) -> Option<Summary> {
    Some(Summary {
        median: median(values)?,
        least: values.iter().copied().fold(f64::INFINITY, f64::min),
        most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        trials: values.len(),
    })
}

/// A pair a block: of several runs within a setting, the mean, since they are not independent.
fn pairs(metric: &Metric, own: &[&Over<'_>]) -> Vec<(f64, f64)> {
    let mut blocks: BTreeMap<usize, [Vec<f64>; 2]> = BTreeMap::new();
    for one in own.iter().filter(|one| one.void.is_none()) {
        if let Some(value) = one.row.figures.get(&metric.name) {
            blocks.entry(one.row.block).or_default()[one.row.arm].push(*value);
        }
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let whole = blocks.values().filter(|arms| arms.iter().all(|values| !values.is_empty()));
    whole.map(|[before, after]| (mean(before), mean(after))).collect()
}

/// Whether each arm has one value: a prediction that is the same whenever its trial begins.
fn is_constant(arms: &[&Option<Summary>]) -> bool {
    arms.iter().all(|arm| arm.as_ref().is_some_and(|one| one.least == one.most))
}

/// Counts of an emulated machine have no error: where no trial of one arm reaches the other's, or
/// all are alike, there is nothing to be tested. Otherwise they vary with the moment at which
/// trials began, and are treated as measured.
fn exact(
    pairs: &[(f64, f64)],
    before: &Option<Summary>,
    after: &Option<Summary>,
    margin: Margin,
    less_is_better: Option<bool>,
) -> Option<(Effect, Verdict)> {
    let (before, after) = (before.as_ref()?, after.as_ref()?);
    let difference = after.median - before.median;
    let is_percent = before.median > 0.0;
    let estimate = if is_percent { difference / before.median * 100.0 } else { difference };
    let effect = Effect {
        estimate,
        interval: None,
        is_percent,
        test: None,
        adjusted_p: None,
        blocks: pairs.len(),
        smallest: None,
    };
    let is_small = |(one, other): &(f64, f64)| match margin {
        Margin::Percent(percent) => (other - one).abs() <= one.abs() * percent / 100.0,
        Margin::Absolute(size) => (other - one).abs() <= size,
    };
    if pairs.iter().all(is_small) {
        return Some((effect, Verdict::NoDifference));
    }
    let is_apart = after.most < before.least || after.least > before.most;
    let verdict = match less_is_better {
        None => Verdict::Different,
        Some(less) if (difference < 0.0) == less => Verdict::Better,
        Some(_) => Verdict::Worse,
    };
    is_apart.then_some((effect, verdict))
}

fn void_arm(own: &[&Over<'_>], arm: usize, level: &str) -> Option<VoidArm> {
    let mut trials = 0;
    let mut first = None;
    for one in own.iter().filter(|one| one.row.arm == arm) {
        first = first.or(Some(one.void.filter(|void| void.is_without_effect)?));
        one.void.filter(|void| void.is_without_effect)?;
        trials += 1;
    }
    let void = first?;
    Some(VoidArm { level: level.to_owned(), why: void.why.clone(), fix: void.fix.clone(), trials })
}

fn exits(own: &[&Over<'_>]) -> Vec<ExitRow> {
    let reasons: BTreeSet<&String> = own.iter().flat_map(|one| one.exits.keys()).collect();
    let of = |arm: usize, reason: &str| {
        let trials: Vec<_> = own.iter().filter(|one| one.row.arm == arm).collect();
        if trials.is_empty() {
            return (None, None);
        }
        let rows = || trials.iter().filter_map(|one| one.exits.get(reason));
        let count: u64 = rows().map(|row| row.count).sum();
        let time: Option<u64> = rows().map(|row| row.time_ns).sum();
        let each = time.filter(|_| count > 0).map(|time| time as f64 / count as f64);
        (Some(count as f64 / trials.len() as f64), each)
    };
    let mut rows: Vec<ExitRow> = reasons
        .into_iter()
        .map(|reason| {
            let (before, after) = (of(0, reason), of(1, reason));
            ExitRow {
                reason: reason.clone(),
                counts: [before.0, after.0],
                nanoseconds: [before.1, after.1],
            }
        })
        .collect();
    let weight = |row: &ExitRow| row.counts.iter().flatten().copied().fold(0.0, f64::max);
    rows.sort_by(|one, other| {
        weight(other).total_cmp(&weight(one)).then_with(|| one.reason.cmp(&other.reason))
    });
    rows
}

/// What trials of each arm were: one word, or the range of numbers.
fn evidence(own: &[&Over<'_>]) -> BTreeMap<String, [String; 2]> {
    let names: BTreeSet<&String> = own.iter().flat_map(|one| one.evidence.keys()).collect();
    let of = |arm: usize, name: &str| {
        let values = own.iter().filter(|one| one.row.arm == arm);
        let values: Vec<&Evidence> = values.filter_map(|one| one.evidence.get(name)).collect();
        let numbers: Vec<f64> = values
            .iter()
            .filter_map(|one| match one {
                Evidence::Number(number) => Some(*number),
                Evidence::Text(_) => None,
            })
            .collect();
        if let Some(summary) = summary(&numbers).filter(|_| numbers.len() == values.len()) {
            return if summary.least == summary.most {
                rounded(summary.least)
            } else {
                format!("{} to {}", rounded(summary.least), rounded(summary.most))
            };
        }
        let words: BTreeSet<String> = values.iter().map(|one| one.to_string()).collect();
        words.into_iter().collect::<Vec<_>>().join(", ")
    };
    names.into_iter().map(|name| (name.clone(), [of(0, name), of(1, name)])).collect()
}

/// With as many digits as say something.
fn rounded(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

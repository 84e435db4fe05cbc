//! Published figures beside ours.

use super::Summary;
use crate::plan::{Metric, Plan, Setting, is_within};
use crate::statistics::Effect;
use serde::{Deserialize, Serialize};

/// One published figure beside ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Beside {
    /// Where it was published.
    pub source: String,
    /// Of the first arm.
    pub before: Option<f64>,
    /// Of the second arm.
    pub after: Option<f64>,
    /// In percent; the low end of a range.
    pub change: Option<f64>,
    /// The high end.
    pub most_change: Option<f64>,
    /// Ours, in percent.
    pub own_change: Option<f64>,
    /// Ours less theirs, in percentage points; of a range, from its nearer end, 0 inside.
    pub error_points: Option<f64>,
    /// How far our first arm is from theirs, in percent of theirs.
    pub error_before: Option<f64>,
    /// How far our second arm is from theirs, in percent of theirs.
    pub error_after: Option<f64>,
    /// Whether the change goes the published way.
    pub has_sign: Option<bool>,
    /// Why ours may differ, as far as it is known.
    pub reason: Option<String>,
}

pub(super) fn of(
    plan: &Plan,
    metric: &Metric,
    cell: &Setting,
    before: &Option<Summary>,
    after: &Option<Summary>,
    effect: Option<&Effect>,
) -> Vec<Beside> {
    let own = plan.published.iter().filter(|one| one.metric == metric.name);
    let own = own.filter(|one| is_within(cell, &one.only));
    let medians = (before.as_ref().map(|one| one.median), after.as_ref().map(|one| one.median));
    let own_change = effect.filter(|one| one.is_percent).map(|one| one.estimate);
    own.map(|one| {
        let of_pair = one.before.zip(one.after).map(|(before, after)| percent(before, after));
        let change = one.change.or(of_pair);
        let error = |theirs: Option<f64>, ours: Option<f64>| Some(percent(theirs?, ours?));
        Beside {
            source: one.source.clone(),
            before: one.before,
            after: one.after,
            change,
            most_change: one.most_change,
            own_change,
            error_points: own_change.zip(change).map(|(own, low)| {
                let (low, high) = ends(low, one.most_change);
                if own < low {
                    own - low
                } else if own > high {
                    own - high
                } else {
                    0.0
                }
            }),
            error_before: error(one.before, medians.0),
            error_after: error(one.after, medians.1),
            has_sign: own_change.zip(change).map(|(own, theirs)| {
                let (low, high) = ends(theirs, one.most_change);
                (own >= 0.0 && high >= 0.0) || (own <= 0.0 && low <= 0.0)
            }),
            reason: one.reason.clone(),
        }
    })
    .collect()
}

fn percent(before: f64, after: f64) -> f64 {
    (after - before) / before * 100.0
}

fn ends(one: f64, other: Option<f64>) -> (f64, f64) {
    let other = other.unwrap_or(one);
    (one.min(other), one.max(other))
}

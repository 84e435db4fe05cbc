//! What changed with the feature, for the worse and for the better.

use crate::comparison::{Comparison, Measure};
use report::grid::grouped;
use serde::Serialize;

/// Less than this, in percent, is neither better nor worse.
const SAME: f64 = 2.0;
/// Changes for the worse that are spelled out.
const MOST_WORSE: usize = 3;

/// A figure that changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Change {
    /// The comparison that it is of.
    pub comparison: String,
    /// The measure's name, or the exits.
    pub what: String,
    /// Of the values.
    pub unit: &'static str,
    /// Without the feature.
    pub off: f64,
    /// With it.
    pub on: f64,
    /// From off to on.
    pub percent: f64,
    /// Why, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

impl Change {
    fn of_measure(comparison: &Comparison, measure: &Measure) -> Option<Self> {
        Some(Self {
            comparison: comparison.name.clone(),
            what: measure.name.clone(),
            unit: measure.unit,
            off: measure.off?,
            on: measure.on?,
            percent: measure.change()?,
            cause: cause(comparison, &measure.name),
        })
    }
}

/// Why a figure is worse with the feature on, where the workload can tell.
fn cause(comparison: &Comparison, measure: &str) -> Option<String> {
    let mut causes = comparison.found.0.iter().flat_map(|one| &one.causes);
    causes.find(|(name, _)| *name == measure).map(|(_, cause)| cause.clone())
}

/// Sorted, the worst first.
pub(super) fn worse(comparisons: &[&Comparison]) -> Vec<Change> {
    let comparisons = || comparisons.iter().copied();
    let measures = comparisons().flat_map(|one| one.measures.iter().map(move |m| (one, m)));
    let mut worse: Vec<(f64, Change)> = measures
        .filter_map(|(one, measure)| {
            let worsening = measure.worsening().filter(|by| *by > SAME)?;
            Some((worsening, Change::of_measure(one, measure)?))
        })
        .chain(
            comparisons()
                .filter(|one| works_more(one))
                .filter_map(exits)
                .filter(|one| one.percent > SAME)
                .map(|one| (one.percent, one)),
        )
        .collect();
    worse.sort_by(|a, b| b.0.total_cmp(&a.0));
    worse.into_iter().map(|(_, change)| change).collect()
}

/// Whether there are more exits without those that wait: waiting is not work.
fn works_more(comparison: &Comparison) -> bool {
    let (off, on) = comparison.work();
    off.zip(on).is_some_and(|(off, on)| on > off)
}

pub(super) fn worse_sentence(worse: &[Change], feature: &str) -> String {
    let shown = worse.iter().take(MOST_WORSE).map(|one| {
        let Change { comparison, what, percent, .. } = one;
        let cause = one.cause.as_ref().map_or(String::new(), |cause| format!(": {cause}"));
        format!(
            "{comparison} {what} {percent:+.1} % ({} -> {} {}){cause}",
            number(one.off),
            number(one.on),
            one.unit
        )
    });
    let more = match worse.len().saturating_sub(MOST_WORSE) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("WORSE with {feature}: {}{more}", shown.collect::<Vec<_>>().join(", "))
}

fn number(value: f64) -> String {
    if value < 10.0 { format!("{value:.4}") } else { grouped(value.round() as u64) }
}

pub(super) fn exits(comparison: &Comparison) -> Option<Change> {
    Some(Change {
        comparison: comparison.name.clone(),
        what: "exits".into(),
        unit: "exits",
        off: comparison.exits_off()? as f64,
        on: comparison.exits_on()? as f64,
        percent: comparison.change()?,
        cause: None,
    })
}

/// How many of the guest's measures got better, and by how much.
pub(super) fn better_sentence(comparisons: &[&Comparison]) -> Option<String> {
    let measures = || comparisons.iter().flat_map(|one| &one.measures);
    let all: Vec<f64> = measures().filter_map(Measure::worsening).collect();
    let mut better: Vec<f64> = all.iter().filter(|by| **by < -SAME).map(|by| -by).collect();
    better.sort_by(f64::total_cmp);
    let (least, most) = (better.first()?, better.last()?);
    let once = measures().all(|measure| measure.samples <= 1);
    let once = if once { " (measured once)" } else { "" };
    Some(if all.len() == 1 {
        let unit = measures().next().map_or("", |measure| measure.unit);
        format!("the guest's {unit} better by {most:.1} %{once}")
    } else {
        format!(
            "{} of the guest's {} measures better, by {least:.1} to {most:.1} %{once}",
            better.len(),
            all.len()
        )
    })
}

//! Figures that are printed too coarsely for what is asked of them.

use crate::plan::{Metric, Source};
use crate::statistics::{Effect, Margin, Verdict};

/// More decimal places than this no program prints on purpose: they are of a division.
const MOST_PLACES: usize = 9;

/// The last decimal place in which a program printed its figure, in the metric's unit. None for
/// what is counted, and for results of a division.
pub(super) fn step(metric: &Metric, values: &[f64]) -> Option<f64> {
    if !matches!(metric.source, Source::Regex(_) | Source::Json(_) | Source::Record { .. }) {
        return None;
    }
    let places = values.iter().map(|value| {
        let text = (value * metric.divide).to_string();
        text.split_once('.').map_or(0, |(_, places)| places.len())
    });
    let places = places.max().filter(|places| *places <= MOST_PLACES)?;
    Some(0.1_f64.powi(i32::try_from(places).ok()?) / metric.divide)
}

/// A figure printed as 0.021 cannot show that nothing changed by more than a percent, since values
/// that are that far apart are printed alike; nor can one step that an emulated machine repeats.
/// The step in the effect's unit, where the verdict does not hold for it. `first` is the first
/// arm's median; `is_exact` says that all trials of an arm were alike.
pub(super) fn too_coarse(
    step: f64,
    first: f64,
    effect: &Effect,
    is_exact: bool,
    margin: Margin,
    verdict: Verdict,
) -> Option<f64> {
    let (step, margin) = match (margin, effect.is_percent) {
        (Margin::Percent(margin), true) => (step / first * 100.0, margin),
        (Margin::Absolute(margin), false) => (step, margin),
        _ => return None,
    };
    // Differences of printed values are a step at most when they come from rounding.
    let is_one_step = is_exact && effect.estimate.abs() <= step * 1.001;
    (step > margin && (verdict == Verdict::NoDifference || is_one_step)).then_some(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{OfExits, OfSeveral, Setting};

    #[test]
    fn what_is_printed_in_coarse_steps_shows_neither_sameness_nor_one_step_of_change() {
        for (before, after, verdict, step, is_coarse) in [
            (0.021, 0.021, Verdict::NoDifference, 0.001, true),
            (0.022, 0.021, Verdict::Better, 0.001, true),
            (0.021, 0.017, Verdict::Better, 0.001, false),
            (0.119, 0.119, Verdict::NoDifference, 0.001, false),
            (2327.0, 2328.0, Verdict::NoDifference, 1.0, false),
        ] {
            let effect = Effect {
                estimate: (after - before) / before * 100.0,
                interval: None,
                is_percent: true,
                test: None,
                adjusted_p: None,
                blocks: 3,
                smallest: None,
            };
            let margin = Margin::Percent(1.0);
            let found = too_coarse(step, before, &effect, true, margin, verdict);
            assert_eq!(found.is_some(), is_coarse, "{before} {after}");
        }
    }

    #[test]
    fn a_step_is_the_last_place_of_all_values_in_the_metric_s_unit() {
        let metric = |source, divide| Metric {
            name: "m".into(),
            unit: "u".into(),
            less_is_better: Some(true),
            source,
            only: Setting::new(),
            divide,
            difference: None,
            absolute: None,
            is_optional: false,
            of_several: OfSeveral::Median,
        };
        let printed = || Source::Regex("x".into());
        assert_eq!(step(&metric(printed(), 1.0), &[0.02, 0.021]), Some(0.1_f64.powi(3)));
        assert_eq!(step(&metric(printed(), 1.0), &[2327.0]), Some(1.0));
        assert_eq!(step(&metric(printed(), 1000.0), &[0.021, 0.022]), Some(0.001));
        assert_eq!(step(&metric(printed(), 1.0), &[1.0 / 3.0]), None);
        assert_eq!(step(&metric(Source::Exits("all".into(), OfExits::Count), 1.0), &[3.0]), None);
    }
}

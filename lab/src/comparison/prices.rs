//! How far what a guest measured may be off because prices are: what it measured of the same seed,
//! or in a life from the same moment, under draws of the costs from their ranges. Both sides
//! have the same draws, so that in the change between them cancels what they share.

use super::{Comparison, Measure};
use crate::drive::observed::Observed;
use crate::interval::interval_of_factors;
use crate::plan::Setting;
use crate::workload;
use crate::workload::figure::Figure;
use serde::Serialize;

/// Fewer draws than this tell nothing.
pub const LEAST_DRAWS: usize = 4;
/// What a normally distributed value exceeds on either side five times of a hundred.
const NORMAL_95: f64 = 1.96;

/// Between these one more value lies nine times of ten.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Within {
    /// From here
    pub low: f64,
    /// to here.
    pub high: f64,
}

/// Intervals of prices and seeds together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Prices {
    /// Without the feature.
    pub off: Option<Within>,
    /// With it.
    pub on: Option<Within>,
    /// Of the change, in percent.
    pub change: Option<Within>,
    /// How many draws there were.
    pub draws: usize,
}

impl Within {
    /// Around a value, by what it would be multiplied with.
    fn around(value: f64, [_, low, high]: [f64; 3]) -> Self {
        Self { low: (value * low).min(value).max(0.0), high: (value * high).max(value) }
    }

    /// How far the farther end is from a value.
    pub fn half(&self, value: f64) -> f64 {
        (value - self.low).max(self.high - value)
    }

    fn holds_zero(&self) -> bool {
        (self.low..=self.high).contains(&0.0)
    }
}

impl Prices {
    /// For tests: each side may be off by a fifth, and the change by ten points.
    #[cfg(test)]
    pub(crate) fn near(off: f64, on: f64) -> Self {
        let within = |value: f64| Some(Within { low: value * 0.8, high: value * 1.2 });
        let change = (on - off) / off * 100.0;
        let change = Some(Within { low: change - 10.0, high: change + 10.0 });
        Self { off: within(off), on: within(on), change, draws: 4 }
    }

    /// Whether prices or chance could make the change go either way.
    pub fn leave_open(&self) -> Option<bool> {
        self.change.map(|change| change.holds_zero())
    }
}

/// Gives comparisons what draws of the costs did to what they compare.
pub(crate) fn take(comparisons: &mut [Comparison], observed: &[Observed]) {
    for comparison in comparisons {
        let of = |setting| {
            let mut own = observed
                .iter()
                .filter(|one| one.step.name == comparison.name && one.step.arm.setting == setting);
            let is_drawn = |one: &&Observed| one.drawn.iter().any(|one| !one.under.is_without());
            own.find(is_drawn).map(Factors::of)
        };
        let (off, on) = (of(Setting::Off), of(Setting::On));
        for measure in &mut comparison.measures {
            let factors = |side: &Option<Factors>| Some(side.as_ref()?.of_figure(&measure.name));
            measure.over_prices = prices(measure, factors(&off), factors(&on));
        }
    }
}

/// What was measured under the likely costs: in the whole life, and from each seed.
pub(crate) struct Likely(Vec<Vec<Figure>>);

impl Likely {
    pub(crate) fn of(observed: &Observed) -> Self {
        let mut likely = vec![workload::of_life(observed)];
        likely.extend(workload::seeded(observed));
        Self(likely)
    }

    /// Zero is the life.
    pub(crate) fn of_seed(&self, seed: u64) -> Option<&[Figure]> {
        self.0.get(usize::try_from(seed).ok()?).map(Vec::as_slice)
    }

    /// A figure's mean over seeds, or what it was in the life if there are none.
    pub(crate) fn mean(&self, name: &str) -> Option<f64> {
        let (life, seeds) = self.0.split_first()?;
        let of = |figures: &[Figure]| figures.iter().find(|one| one.name == name).cloned();
        let values: Vec<f64> = seeds.iter().filter_map(|one| Some(of(one)?.typical())).collect();
        match values.len() {
            0 => of(life).map(|figure| figure.value),
            count => Some(values.iter().sum::<f64>() / count as f64),
        }
    }
}

/// What a side measured under the likely costs and under each draw.
struct Factors {
    draws: Vec<(Vec<Figure>, Vec<Figure>)>,
}

impl Factors {
    fn of(observed: &Observed) -> Self {
        let likely = Likely::of(observed);
        let own = observed.drawn.iter().filter(|drawn| !drawn.under.is_without());
        let draws =
            own.filter_map(|one| Some((likely.of_seed(one.seed)?.to_vec(), one.figures.clone())));
        Self { draws: draws.collect() }
    }

    /// By what each draw multiplies a figure; none where it was not measured.
    fn of_figure(&self, name: &str) -> Vec<Option<f64>> {
        let value = |figures: &[Figure]| {
            let figure = figures.iter().find(|figure| figure.name == name)?;
            Some(figure.typical()).filter(|value| *value > 0.0)
        };
        let factor =
            |(likely, own): &(Vec<Figure>, Vec<Figure>)| Some(value(own)? / value(likely)?);
        self.draws.iter().map(factor).collect()
    }
}

fn prices(
    measure: &Measure,
    off: Option<Vec<Option<f64>>>,
    on: Option<Vec<Option<f64>>>,
) -> Option<Prices> {
    let share = |value: Option<f64>, is_on: bool| {
        let spreads = measure.over_seeds?;
        let spread = if is_on { spreads.on } else { spreads.off };
        Some(spread?.half() / NORMAL_95 / value.filter(|value| *value > 0.0)?)
    };
    let shares = [share(measure.off, false), share(measure.on, true)].map(|one| one.unwrap_or(0.0));
    let side = |value: Option<f64>, factors: &Option<Vec<Option<f64>>>, share: f64| {
        let factors: Vec<f64> = factors.as_ref()?.iter().flatten().copied().collect();
        (factors.len() >= LEAST_DRAWS)
            .then_some(Within::around(value?, interval_of_factors(&factors, share)))
    };
    let both = || {
        let ratios = off.as_ref()?.iter().zip(on.as_ref()?);
        let ratios: Vec<f64> = ratios.filter_map(|(off, on)| Some((*on)? / (*off)?)).collect();
        let ratio = measure.on? / measure.off.filter(|off| *off > 0.0)?;
        let [_, low, high] = interval_of_factors(&ratios, shares[0].hypot(shares[1]));
        let percent = |factor: f64| (ratio * factor - 1.0) * 100.0;
        let (low, high) = (percent(low.min(1.0)), percent(high.max(1.0)));
        (ratios.len() >= LEAST_DRAWS).then_some(Within { low, high })
    };
    let found = Prices {
        off: side(measure.off, &off, shares[0]),
        on: side(measure.on, &on, shares[1]),
        change: both(),
        draws: off.as_ref().or(on.as_ref())?.iter().flatten().count(),
    };
    (found.off.is_some() || found.on.is_some()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(off: f64, on: f64) -> Measure {
        Measure {
            name: "ipi".into(),
            unit: "cycles",
            off: Some(off),
            on: Some(on),
            samples: 100,
            over_seeds: None,
            over_prices: None,
        }
    }

    fn all(factors: &[f64]) -> Option<Vec<Option<f64>>> {
        Some(factors.iter().copied().map(Some).collect())
    }

    #[test]
    fn what_both_sides_share_cancels_in_the_change() {
        let factors = [0.8, 0.9, 1.0, 1.1, 1.2];
        let found = prices(&measure(1000.0, 500.0), all(&factors), all(&factors)).expect("prices");
        // Of the logarithms: 2.132 times 0.1600 times the root of 1.2 around 0.9899.
        let off = found.off.expect("off");
        assert!((off.low - 681.0).abs() < 5.0 && (off.high - 1439.0).abs() < 5.0, "{off:?}");
        assert_eq!(found.change, Some(Within { low: -50.0, high: -50.0 }));
        assert_eq!((found.leave_open(), found.draws), (Some(false), 5));
    }

    #[test]
    fn a_change_that_prices_turn_round_is_left_open() {
        let (off, on) = (all(&[1.0; 5]), all(&[0.8, 1.2, 0.9, 1.1, 1.0]));
        let found = prices(&measure(1000.0, 950.0), off, on).expect("prices");
        assert_eq!(found.leave_open(), Some(true), "{found:?}");
        let mut measure = measure(1000.0, 950.0);
        measure.over_prices = Some(found);
        assert!(measure.is_within_chance() && measure.worsening().is_none());
    }

    #[test]
    fn an_interval_holds_what_it_is_of_even_where_draws_are_all_dearer() {
        let found = prices(&measure(1000.0, 500.0), all(&[1.3; 5]), None).expect("prices");
        assert_eq!(found.off, Some(Within { low: 1000.0, high: 1300.0 }));
        assert_eq!((found.on, found.change), (None, None));
    }

    #[test]
    fn too_few_draws_tell_nothing() {
        assert_eq!(prices(&measure(1000.0, 500.0), all(&[1.0, 1.1, 1.2]), None), None);
        let some = Some(vec![Some(1.0), None, Some(1.1), None, Some(1.2)]);
        assert_eq!(prices(&measure(1000.0, 500.0), some, None), None);
    }
}

//! How the values of a figure lie that were found from several seeds.

use super::measure::Spreads;
use super::{Comparison, Measure};
use crate::plan::Setting;
use crate::workload::figure::Figure;
use serde::{Deserialize, Serialize};

/// Values from several seeds, a seed each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Spread {
    /// Of all.
    pub mean: f64,
    /// The mean of others like them lies between here
    pub low: f64,
    /// and here in 95 of 100 cases, if they are spread as chance spreads.
    pub high: f64,
    /// The least value.
    pub least: f64,
    /// The greatest.
    pub most: f64,
    /// How many there are.
    pub seeds: usize,
}

/// Figures of a step that was run from several seeds.
pub(crate) struct Repeated {
    /// The step's name: the comparison that it belongs to.
    pub name: String,
    /// Which side it is of.
    pub setting: Setting,
    /// By seed.
    pub runs: Vec<Vec<Figure>>,
}

/// Student's t for 95 of 100 by degrees of freedom, from 1 on.
const STUDENT: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
/// For more of them; what is too much of it is a few per cent.
const STUDENT_BEYOND: f64 = 2.228;

impl Spread {
    /// Of two values or more.
    pub fn of(values: &[f64]) -> Option<Self> {
        let degrees = values.len().checked_sub(1).filter(|degrees| *degrees > 0)?;
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let student = STUDENT.get(degrees - 1).copied().unwrap_or(STUDENT_BEYOND);
        let half = student * (squares / degrees as f64 / count).sqrt();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = (mean - half, mean + half);
        Some(Self { mean, low, high, least, most, seeds: values.len() })
    }
}

impl Spread {
    /// How far the interval goes to either side of the mean.
    pub fn half(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// Puts what was found from several seeds in the place of what was found from one.
pub(crate) fn take(comparisons: &mut [Comparison], repeated: &[Repeated]) {
    for comparison in comparisons {
        let name = comparison.name.clone();
        for measure in &mut comparison.measures {
            let spread = |setting| {
                let one = repeated
                    .iter()
                    .find(|one: &&Repeated| one.name == name && one.setting == setting)?;
                Spread::of(&values(one, &measure.name))
            };
            let (off, on) = (spread(Setting::Off), spread(Setting::On));
            if off.is_some() || on.is_some() {
                set(measure, off, on);
            }
        }
    }
}

fn set(measure: &mut Measure, off: Option<Spread>, on: Option<Spread>) {
    measure.off = off.map(|spread| spread.mean).or(measure.off);
    measure.on = on.map(|spread| spread.mean).or(measure.on);
    measure.over_seeds = Some(Spreads { off, on });
}

/// The means of a figure, a seed each, without its longest sample: what interrupts a host once in
/// milliseconds would be in a mean over some microseconds as if it were there always, or not at
/// all.
fn values(repeated: &Repeated, name: &str) -> Vec<f64> {
    let of = |run: &Vec<Figure>| run.iter().find(|one| one.name == name).map(Figure::typical);
    repeated.runs.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_mean_is_students() {
        assert_eq!(Spread::of(&[5.0]), None);
        let spread = Spread::of(&[9.0, 10.0, 11.0]).expect("three values");
        assert_eq!((spread.mean, spread.least, spread.most, spread.seeds), (10.0, 9.0, 11.0, 3));
        // 4.303 * 1 / sqrt(3)
        assert!((spread.high - 12.484).abs() < 1e-3 && (spread.low - 7.516).abs() < 1e-3);
    }

    #[test]
    fn what_interrupts_a_host_once_is_not_in_the_mean_of_a_few_microseconds() {
        let run = |usual: f64, mean: f64| {
            vec![Figure {
                name: "ipi".into(),
                unit: "cycles",
                value: 2900.0,
                samples: 20,
                mean: Some(mean),
                usual: Some(usual),
            }]
        };
        let runs = vec![run(2900.0, 2910.0), run(2920.0, 19640.0)];
        let repeated = Repeated { name: "x2APIC".into(), setting: Setting::Off, runs };
        assert_eq!(values(&repeated, "ipi"), [2900.0, 2920.0]);
    }

    #[test]
    fn a_change_is_none_where_the_intervals_meet() {
        let spread = |mean: f64| Spread {
            mean,
            low: mean - 10.0,
            high: mean + 10.0,
            least: mean,
            most: mean,
            seeds: 10,
        };
        let measure = |off: f64, on: f64| {
            let mut measure = Measure {
                name: "ipi".into(),
                unit: "cycles",
                off: None,
                on: None,
                samples: 100,
                over_seeds: None,
                over_prices: None,
            };
            set(&mut measure, Some(spread(off)), Some(spread(on)));
            measure
        };
        assert_eq!(measure(100.0, 115.0).worsening(), None);
        assert_eq!(measure(100.0, 125.0).worsening(), Some(25.0));
        assert_eq!(measure(100.0, 115.0).change(), Some(15.0), "it is still shown");
    }
}

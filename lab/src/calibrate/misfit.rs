//! Misfits: hosts whose times no costs within the ranges explain, and what may be the reason. What
//! is minimised is distributed like chi-squared with a degree of freedom for each time, if the host
//! is one that the prior knowledge allows and times are off by no more than is allowed for.

use super::fit::{Data, strictly};
use super::response::Model;

/// Whether the host is one that costs can explain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Misfit {
    /// What was minimised, and as much as is expected.
    pub chi2: f64,
    /// A degree of freedom for each time.
    pub freedom: usize,
    /// How probable so much or more is.
    pub probability: f64,
    /// By what share the times are off in the mean.
    pub off: f64,
    /// Another clock that explains the times better.
    pub clock: Option<OtherClock>,
    /// By what share they are off if the kernel leaves the processor's weaknesses as they are,
    /// where the host does not say whether it does, and that explains them better.
    pub without_mitigations: Option<f64>,
}

/// A clock of the cores that is not the model's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OtherClock {
    /// To the model's.
    pub ratio: f64,
    /// By what share the times are off then, likewise.
    pub off: f64,
}

impl Misfit {
    /// Less probable hosts are said not to be explained.
    const LEAST: f64 = 0.001;

    /// Of a host's times: whether there are costs by which none is off by more than is allowed for.
    pub fn of(model: &Model, data: &Data) -> Self {
        let (freedom, fitted) = (data.values.len(), strictly(model, data));
        let probability = exceeding(fitted.least, freedom as f64);
        let off = fitted.mean_off(data);
        let mut misfit = Self {
            chi2: fitted.least,
            freedom,
            probability,
            off,
            clock: None,
            without_mitigations: None,
        };
        if misfit.is_said() {
            let ratios = (40..=160).map(|percent| f64::from(percent) / 100.0);
            let at = |ratio: f64| {
                let off = strictly(&model.at_clock(ratio), data).mean_off(data);
                OtherClock { ratio, off }
            };
            let best = ratios.map(at).min_by(|a, b| a.off.total_cmp(&b.off));
            misfit.clock =
                best.filter(|best| best.ratio != 1.0 && misfit.is_explained_by(best.off));
        }
        misfit
    }

    /// Whether times that are off by this share are so much less that what makes the difference is
    /// to be named.
    pub fn is_explained_by(&self, off: f64) -> bool {
        off < self.off / 2.0
    }

    /// Whether it is to be said.
    pub fn is_said(&self) -> bool {
        self.probability < Self::LEAST
    }
}

/// How probable it is that chi-squared with so many degrees of freedom is as great, by Wilson's and
/// Hilferty's approximation.
fn exceeding(chi2: f64, freedom: f64) -> f64 {
    let variance = 2.0 / (9.0 * freedom);
    let z = ((chi2 / freedom).cbrt() - (1.0 - variance)) / variance.sqrt();
    // The tail of a normal distribution, by Chernoff's bound beyond what the series holds for.
    match z {
        z if z > 6.0 => (-z * z / 2.0).exp(),
        z => 0.5 * (1.0 - error_function(z / std::f64::consts::SQRT_2)),
    }
}

/// Abramowitz and Stegun, 7.1.26: right to 1.5 in ten million.
fn error_function(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let series = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let sum = series.iter().fold(0.0, |sum, one| (sum + one) * t);
    (1.0 - sum * (-x * x).exp()).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::fit::fit;
    use crate::calibrate::fit::tests::{data, forty};
    use crate::calibrate::response::tests::model;

    #[test]
    fn a_host_beyond_the_ranges_is_noticed_and_costs_stay_within_them() {
        let model = model();
        let good = data(&model.times(&[120.0, 90.0, 50.0]));
        assert!(!Misfit::of(&model, &good).is_said());
        let bad = data(&model.times(&[450.0, 90.0, 50.0]));
        let found = fit(&model, &bad);
        assert!(Misfit::of(&model, &bad).is_said(), "{found:?}");
        for (cost, range) in found.costs.iter().zip(&model.ranges) {
            assert!(range.low * 0.999 <= *cost && *cost <= range.high * 1.001, "{cost} {range:?}");
        }
    }

    #[test]
    fn times_that_are_off_by_more_than_is_allowed_are_a_misfit() {
        for (off, is_misfit) in [(0.0, false), (0.01, false), (0.1, true)] {
            let (model, data) = forty([off, -off, off, -off]);
            assert_eq!(Misfit::of(&model, &data).is_said(), is_misfit, "{off}");
        }
    }

    #[test]
    fn a_bare_loop_has_no_path_that_could_be_another_one() {
        let (mut model, mut data) = forty([0.0; 4]);
        model.ranges[0].high = 125.0;
        (model.rows[0], data.has_path[0]) = ("loop pause".into(), false);
        assert!(!Misfit::of(&model, &data).is_said());
        data.values[0] *= 1.2;
        assert!(Misfit::of(&model, &data).is_said());
    }

    #[test]
    fn chi_squared_exceeds_its_known_quantiles_with_their_probabilities() {
        for (chi2, freedom, probability) in
            [(18.307, 10.0, 0.05), (29.588, 10.0, 0.001), (43.773, 30.0, 0.05)]
        {
            // The approximation is off by 7 % at a thousandth.
            let found: f64 = exceeding(chi2, freedom);
            assert!((found / probability - 1.0).abs() < 0.1, "{chi2}: {found}");
        }
    }
}

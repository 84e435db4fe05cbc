//! The fit: least squares of a host's times over the logarithms of costs, each within its range and
//! drawn towards what its source says by as much as the range is narrow.
//!
//! What is minimised is distributed like chi-squared with a degree of freedom for each time, if the
//! host is one that the prior knowledge allows. Where it is much greater, the host does something
//! that no cost explains: another clock, other mitigations, another kernel. That is said, not
//! absorbed.

use super::measured::Measured;
use super::response::Model;
use super::square::{cholesky, solve};
use board::cost::Range;

/// Rounds of the search, at most.
const MOST_ROUNDS: usize = 200;
/// A step that promises less is the last.
const LEAST_GAIN: f64 = 1e-7;
/// Equal shares of a range's distribution that its mean and deviation are summed over.
const SHARES: usize = 64;
/// What a time is off by at least, in nanoseconds: counters tick.
const TICK: f64 = 0.3;

/// Times to fit to, in the order of a model's rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Data {
    /// Nanoseconds.
    pub values: Vec<f64>,
    /// Standard deviations of what separates them from the model's.
    pub sigmas: Vec<f64>,
}

impl Data {
    /// The times of a host in the order of a model's rows, which must be the same. `error` is the
    /// share by which a path's time may be off although all costs are right.
    pub fn of(measured: &Measured, model: &Model, error: f64) -> anyhow::Result<Self> {
        let (mut values, mut sigmas) = (Vec::new(), Vec::new());
        for name in &model.rows {
            let row = measured.row(name);
            let row = row.ok_or_else(|| anyhow::anyhow!("{name} was not measured on the host"))?;
            let deviation = row.deviation.unwrap_or(0.0) / (row.repeats.max(1) as f64).sqrt();
            values.push(row.value);
            sigmas.push((deviation.powi(2) + (error * row.value).powi(2) + TICK.powi(2)).sqrt());
        }
        Ok(Self { values, sigmas })
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// A value for each figure of the model.
    pub costs: Vec<f64>,
    /// What was minimised.
    pub chi2: f64,
    /// How far each time is from the model's, in its standard deviations.
    pub residuals: Vec<f64>,
}

impl Fitted {
    /// By what share the times are off in the mean: a few that are far off, such as one of two
    /// modes for the other, count less in it than in what was minimised.
    fn off(&self, data: &Data) -> f64 {
        let all = self.residuals.iter().zip(&data.sigmas).zip(&data.values);
        let shares =
            all.map(|((residual, sigma), value)| (residual * sigma / value.max(TICK)).abs());
        shares.sum::<f64>() / data.values.len().max(1) as f64
    }
}

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

    /// Of a fit.
    pub fn of(model: &Model, data: &Data, fitted: &Fitted) -> Self {
        let freedom = data.values.len();
        let probability = exceeding(fitted.chi2, freedom as f64);
        let off = fitted.off(data);
        let mut misfit = Self { chi2: fitted.chi2, freedom, probability, off, clock: None };
        if misfit.is_said() {
            let ratios = (40..=160).map(|percent| f64::from(percent) / 100.0);
            let at = |ratio: f64| {
                let off = fit(&model.at_clock(ratio), data).off(data);
                OtherClock { ratio, off }
            };
            let best = ratios.map(at).min_by(|a, b| a.off.total_cmp(&b.off));
            misfit.clock = best.filter(|best| best.ratio != 1.0 && best.off < off / 2.0);
        }
        misfit
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

/// The mean and the standard deviation of a range's logarithm, as costs are drawn from it.
pub fn prior(range: Range) -> (f64, f64) {
    let share = |part: usize| (part as f64 + 0.5) / SHARES as f64;
    let logs: Vec<f64> = (0..SHARES).map(|part| range.at(share(part)).max(1e-9).ln()).collect();
    let mean = logs.iter().sum::<f64>() / SHARES as f64;
    let square = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / SHARES as f64;
    (mean, square.sqrt().max(1e-6))
}

/// Fits a model's costs to a host's times.
pub fn fit(model: &Model, data: &Data) -> Fitted {
    let search =
        Search { model, data, priors: model.ranges.iter().map(|one| prior(*one)).collect() };
    let mut place: Vec<f64> = search.priors.iter().map(|(mean, _)| *mean).collect();
    search.bound(&mut place);
    let mut value = search.value(&place);
    for _ in 0..MOST_ROUNDS {
        let next = search.step(&place, value);
        let Some((there, better)) = next else { break };
        let gain = value - better;
        (place, value) = (there, better);
        if gain < LEAST_GAIN {
            break;
        }
    }
    let costs: Vec<f64> = place.iter().map(|log| log.exp()).collect();
    let residuals = search.residuals(&costs);
    Fitted { costs, chi2: value, residuals }
}

struct Search<'a> {
    model: &'a Model,
    data: &'a Data,
    priors: Vec<(f64, f64)>,
}

impl Search<'_> {
    fn limits(&self, figure: usize) -> (f64, f64) {
        let Range { low, high, .. } = self.model.ranges[figure];
        (low.max(1e-9).ln(), high.max(1e-9).ln())
    }

    fn bound(&self, place: &mut [f64]) {
        for (figure, log) in place.iter_mut().enumerate() {
            let (low, high) = self.limits(figure);
            *log = log.clamp(low, high);
        }
    }

    fn residuals(&self, costs: &[f64]) -> Vec<f64> {
        let times = self.model.times(costs);
        let both = times.iter().zip(&self.data.values).zip(&self.data.sigmas);
        both.map(|((time, value), sigma)| (value - time) / sigma).collect()
    }

    fn value(&self, place: &[f64]) -> f64 {
        let costs: Vec<f64> = place.iter().map(|log| log.exp()).collect();
        let data: f64 = self.residuals(&costs).iter().map(|one| one * one).sum();
        let own = place.iter().zip(&self.priors);
        data + own.map(|(log, (mean, sd))| ((log - mean) / sd).powi(2)).sum::<f64>()
    }

    /// Gauss's and Newton's step of the figures that no bound holds, as much of it as helps.
    fn step(&self, place: &[f64], value: f64) -> Option<(Vec<f64>, f64)> {
        let costs: Vec<f64> = place.iter().map(|log| log.exp()).collect();
        let residuals = self.residuals(&costs);
        let figures = place.len();
        let slope = |row: usize, figure: usize| {
            self.model.slopes[row][figure] * costs[figure] / self.data.sigmas[row]
        };
        let down: Vec<f64> = (0..figures)
            .map(|figure| {
                let (mean, sd) = self.priors[figure];
                let data = residuals.iter().enumerate().map(|(row, one)| one * slope(row, figure));
                data.sum::<f64>() - (place[figure] - mean) / (sd * sd)
            })
            .collect();
        let is_free = |figure: &usize| {
            let ((low, high), log) = (self.limits(*figure), place[*figure]);
            !(log <= low && down[*figure] < 0.0 || log >= high && down[*figure] > 0.0)
        };
        let free: Vec<usize> = (0..figures).filter(is_free).collect();
        let curve = |a: usize, b: usize| {
            let rows = 0..residuals.len();
            let data = rows.map(|row| slope(row, a) * slope(row, b)).sum::<f64>();
            data + if a == b { self.priors[a].1.powi(-2) } else { 0.0 }
        };
        let matrix: Vec<Vec<f64>> =
            free.iter().map(|a| free.iter().map(|b| curve(*a, *b)).collect()).collect();
        let right: Vec<f64> = free.iter().map(|figure| down[*figure]).collect();
        let way = solve(&cholesky(&matrix)?, &right);
        let mut share = 1.0;
        for _ in 0..30 {
            let mut there = place.to_vec();
            for (figure, way) in free.iter().zip(&way) {
                there[*figure] += share * way;
            }
            self.bound(&mut there);
            let better = self.value(&there);
            if better < value {
                return Some((there, better));
            }
            share /= 2.0;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::response::tests::model;

    fn data(values: &[f64]) -> Data {
        Data { values: values.to_vec(), sigmas: vec![0.5; values.len()] }
    }

    #[test]
    fn costs_that_the_times_determine_are_found_and_the_others_stay_where_their_sources_have_them()
    {
        let model = model();
        let hidden = [180.0, 130.0, 50.0];
        let found = fit(&model, &data(&model.times(&hidden)));
        assert!((found.costs[0] - 180.0).abs() < 2.0, "{:?}", found.costs);
        assert!((found.costs[1] - 130.0).abs() < 2.0, "{:?}", found.costs);
        let (mean, _) = prior(model.ranges[2]);
        assert!((found.costs[2] / mean.exp() - 1.0).abs() < 1e-3, "{:?}", found.costs);
    }

    #[test]
    fn a_host_beyond_the_ranges_is_noticed_and_costs_stay_within_them() {
        let model = model();
        let good = data(&model.times(&[120.0, 90.0, 50.0]));
        assert!(!Misfit::of(&model, &good, &fit(&model, &good)).is_said());
        let bad = data(&model.times(&[450.0, 90.0, 50.0]));
        let found = fit(&model, &bad);
        assert!(Misfit::of(&model, &bad, &found).is_said(), "{found:?}");
        for (cost, range) in found.costs.iter().zip(&model.ranges) {
            assert!(range.low * 0.999 <= *cost && *cost <= range.high * 1.001, "{cost} {range:?}");
        }
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

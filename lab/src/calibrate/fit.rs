//! The fit: least squares of a host's times over the logarithms of costs, each within its range and
//! drawn towards what its source says by as much as the range is narrow.
//!
//! What separates a host's times from the model's has two parts. One is measured, for each time:
//! how much it differs from one life of the guest to the next, and how far the model's straight
//! lines are from the machine. The other is a share of the time, for no lab has the host's kernel
//! to the last instruction; how great it is the times themselves tell, all together. If it is more
//! than is allowed for, the host does something that no cost explains: another clock, other
//! mitigations, another kernel. That is said, not absorbed.

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
/// The share that a bare loop's time per round is off by at least: of many rounds no tick is left.
const OF_LOOP: f64 = 1e-3;
/// The start of bare loops' names: no kernel's path is in them.
const LOOP: &str = "loop ";
/// Degrees of freedom of what separates times (Student's t): a path that leaps to another order of
/// events is far off, and must not pull all costs with it.
const TAILS: f64 = 5.0;
/// The least share that times are off by, and how many greater ones are tried, to twice what is
/// allowed.
pub(super) const LEAST_OFF: f64 = 2e-4;
const TRIED: usize = 12;

/// Times to fit to, in the order of a model's rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Data {
    /// Nanoseconds.
    pub values: Vec<f64>,
    /// Standard deviations of what is measured to separate each from the model's.
    pub noises: Vec<f64>,
    /// Whether a kernel's path is in it, which may be another one than the lab's.
    pub has_path: Vec<bool>,
    /// The share by which the time of a path may be off although all costs are right.
    pub error: f64,
}

impl Data {
    /// The times of a host in the order of a model's rows, which must be the same.
    pub fn of(measured: &Measured, model: &Model, error: f64) -> anyhow::Result<Self> {
        let (mut values, mut noises) = (Vec::new(), Vec::new());
        for name in &model.rows {
            let row = measured.row(name);
            let row = row.ok_or_else(|| anyhow::anyhow!("{name} was not measured on the host"))?;
            let deviation = row.deviation.unwrap_or(0.0) / (row.repeats.max(1) as f64).sqrt();
            let least = if name.starts_with(LOOP) { OF_LOOP * row.value } else { TICK };
            values.push(row.value);
            noises.push(deviation.hypot(least));
        }
        let has_path = model.rows.iter().map(|name| !name.starts_with(LOOP)).collect();
        Ok(Self { values, noises, has_path, error })
    }

    /// With what the machine's times are seen to differ by from the model's, of each row.
    pub fn with(mut self, spreads: &[f64]) -> Self {
        self.noises
            .iter_mut()
            .zip(spreads)
            .for_each(|(noise, spread)| *noise = noise.hypot(*spread));
        self
    }

    /// Standard deviations of what separates times from the model's, if paths are off by a share.
    pub(super) fn sigmas(&self, off: f64) -> Vec<f64> {
        let all = self.values.iter().zip(&self.noises).zip(&self.has_path);
        all.map(|((value, noise), has_path)| match has_path {
            true => noise.hypot(off * value),
            false => *noise,
        })
        .collect()
    }

    /// What a time that is so many deviations off adds to what is minimised; twice the logarithm of
    /// its density, but for a constant.
    pub(super) fn deviance(&self, row: usize, z: f64) -> f64 {
        match self.has_path[row] {
            true => (TAILS + 1.0) * (z * z / TAILS).ln_1p(),
            false => z * z,
        }
    }

    /// By how much less it counts than if it were normally distributed.
    fn weight(&self, row: usize, z: f64) -> f64 {
        match self.has_path[row] {
            true => (TAILS + 1.0) / (TAILS + z * z),
            false => 1.0,
        }
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// A value for each figure of the model.
    pub costs: Vec<f64>,
    /// What was minimised.
    pub least: f64,
    /// The share by which times are off beside what is measured.
    pub off: f64,
    /// How far each time is from the model's, in nanoseconds.
    pub away: Vec<f64>,
}

impl Fitted {
    /// By what share the times are off in the mean: a few that are far off, such as one of two
    /// modes for the other, count less in it than in what was minimised.
    pub(super) fn mean_off(&self, data: &Data) -> f64 {
        let shares = self.away.iter().zip(&data.values).map(|(away, value)| away / value.max(TICK));
        shares.map(f64::abs).sum::<f64>() / data.values.len().max(1) as f64
    }
}

/// The mean and the standard deviation of a range's logarithm, as costs are drawn from it.
pub fn prior(range: Range) -> (f64, f64) {
    let share = |part: usize| (part as f64 + 0.5) / SHARES as f64;
    let logs: Vec<f64> = (0..SHARES).map(|part| range.at(share(part)).max(1e-9).ln()).collect();
    let mean = logs.iter().sum::<f64>() / SHARES as f64;
    let square = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / SHARES as f64;
    (mean, square.sqrt().max(1e-6))
}

/// Fits a model's costs to a host's times, with the share that they are off by that makes the times
/// most probable.
pub fn fit(model: &Model, data: &Data) -> Fitted {
    let most = 2.0 * data.error.max(LEAST_OFF);
    let factor = (most / LEAST_OFF).powf(1.0 / (TRIED - 1) as f64);
    let tried = (0..TRIED).map(|step| {
        let off = LEAST_OFF * factor.powi(step as i32);
        Search::new(model, data, off, true).run()
    });
    let best = tried.max_by(|(_, a), (_, b)| a.total_cmp(b));
    best.map_or_else(|| strictly(model, data), |(fitted, _)| fitted)
}

/// The same by normally distributed errors, as great as they are allowed to be.
pub(super) fn strictly(model: &Model, data: &Data) -> Fitted {
    Search::new(model, data, data.error, false).run().0
}

/// The logarithm of the density of such a share before any time is known, but for a constant.
pub(super) fn prior_of_off(off: f64, error: f64) -> f64 {
    -(off / error).powi(2) / 2.0
}

struct Search<'a> {
    model: &'a Model,
    data: &'a Data,
    off: f64,
    sigmas: Vec<f64>,
    /// Whether times may be far off.
    has_tails: bool,
    priors: Vec<(f64, f64)>,
}

impl<'a> Search<'a> {
    fn new(model: &'a Model, data: &'a Data, off: f64, has_tails: bool) -> Self {
        let priors = model.ranges.iter().map(|one| prior(*one)).collect();
        Self { model, data, off, sigmas: data.sigmas(off), has_tails, priors }
    }

    /// What is found, and the logarithm of how probable it makes the times.
    fn run(&self) -> (Fitted, f64) {
        let mut place: Vec<f64> = self.priors.iter().map(|(mean, _)| *mean).collect();
        self.bound(&mut place);
        let mut value = self.value(&place);
        for _ in 0..MOST_ROUNDS {
            let Some((there, better)) = self.step(&place, value) else { break };
            let gain = value - better;
            (place, value) = (there, better);
            if gain < LEAST_GAIN {
                break;
            }
        }
        let costs = exponentials(&place);
        let all: Vec<usize> = (0..place.len()).collect();
        let curves = cholesky(&self.curves(&self.slopes(&costs), &self.weights(&costs), &all));
        let volume = curves.map_or(f64::INFINITY, |lower| {
            lower.iter().enumerate().map(|(row, line)| line[row].ln()).sum()
        });
        let widths: f64 = self.sigmas.iter().map(|sigma| sigma.ln()).sum();
        let before = prior_of_off(self.off, self.data.error) + self.off.ln();
        let probable = before - value / 2.0 - widths - volume;
        let away: Vec<f64> =
            self.residuals(&costs).iter().zip(&self.sigmas).map(|(a, b)| a * b).collect();
        (Fitted { costs, least: value, off: self.off, away }, probable)
    }

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
        let both = times.iter().zip(&self.data.values).zip(&self.sigmas);
        both.map(|((time, value), sigma)| (value - time) / sigma).collect()
    }

    fn weights(&self, costs: &[f64]) -> Vec<f64> {
        let all = self.residuals(costs).into_iter().enumerate();
        all.map(|(row, z)| if self.has_tails { self.data.weight(row, z) } else { 1.0 }).collect()
    }

    fn value(&self, place: &[f64]) -> f64 {
        let all = self.residuals(&exponentials(place)).into_iter().enumerate();
        let data =
            all.map(|(row, z)| if self.has_tails { self.data.deviance(row, z) } else { z * z });
        let own = place.iter().zip(&self.priors);
        data.sum::<f64>() + own.map(|(log, (mean, sd))| ((log - mean) / sd).powi(2)).sum::<f64>()
    }

    /// What each time changes with the logarithm of each cost, in its deviations.
    fn slopes(&self, costs: &[f64]) -> Vec<Vec<f64>> {
        let mut slopes = self.model.slopes_at(costs);
        for (row, sigma) in slopes.iter_mut().zip(&self.sigmas) {
            row.iter_mut().zip(costs).for_each(|(slope, cost)| *slope *= cost / sigma);
        }
        slopes
    }

    /// How what is minimised curves, between each two of some figures.
    fn curves(&self, slopes: &[Vec<f64>], weights: &[f64], of: &[usize]) -> Vec<Vec<f64>> {
        let curve = |a: usize, b: usize| {
            let rows = slopes.iter().zip(weights);
            let data = rows.map(|(row, weight)| row[a] * row[b] * weight).sum::<f64>();
            data + if a == b { self.priors[a].1.powi(-2) } else { 0.0 }
        };
        of.iter().map(|a| of.iter().map(|b| curve(*a, *b)).collect()).collect()
    }

    /// Gauss's and Newton's step of the figures that no bound holds, as much of it as helps.
    fn step(&self, place: &[f64], value: f64) -> Option<(Vec<f64>, f64)> {
        let costs = exponentials(place);
        let (residuals, weights) = (self.residuals(&costs), self.weights(&costs));
        let slopes = self.slopes(&costs);
        let down = |figure: usize| {
            let (mean, sd) = self.priors[figure];
            let rows = residuals.iter().zip(&weights).zip(&slopes);
            let data = rows.map(|((z, weight), row)| z * weight * row[figure]);
            data.sum::<f64>() - (place[figure] - mean) / (sd * sd)
        };
        let down: Vec<f64> = (0..place.len()).map(down).collect();
        let is_free = |figure: &usize| {
            let ((low, high), log) = (self.limits(*figure), place[*figure]);
            !(log <= low && down[*figure] < 0.0 || log >= high && down[*figure] > 0.0)
        };
        let free: Vec<usize> = (0..place.len()).filter(is_free).collect();
        let right: Vec<f64> = free.iter().map(|figure| down[*figure]).collect();
        let way = solve(&cholesky(&self.curves(&slopes, &weights, &free))?, &right);
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

fn exponentials(logs: &[f64]) -> Vec<f64> {
    logs.iter().map(|log| log.exp()).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::calibrate::response::tests::model;

    pub fn data(values: &[f64]) -> Data {
        let (noises, has_path) = (vec![0.5; values.len()], vec![true; values.len()]);
        Data { values: values.to_vec(), noises, has_path, error: 0.001 }
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

    /// Forty times of one cost, off by these shares in turn.
    pub fn forty(off: [f64; 4]) -> (Model, Data) {
        let mut model = model();
        let rows = 40;
        model.rows = (0..rows).map(|row| format!("row {row}")).collect();
        model.base = vec![1000.0; rows];
        model.slopes = vec![vec![10.0, 0.0, 0.0]; rows];
        let values = model.times(&[120.0, 100.0, 50.0]).into_iter().enumerate();
        let values: Vec<f64> = values.map(|(row, time)| time * (1.0 + off[row % 4])).collect();
        let mut data = data(&values);
        data.error = 0.03;
        (model, data)
    }

    #[test]
    fn how_far_times_are_off_is_found_from_them() {
        for (off, low, high) in [
            ([0.0; 4], 0.0, 0.001),
            ([0.01, -0.01, 0.01, -0.01], 0.005, 0.015),
            ([0.1, -0.1, 0.1, -0.1], 0.03, 1.0),
        ] {
            let (model, data) = forty(off);
            let found = fit(&model, &data);
            assert!((low..high).contains(&found.off), "{off:?}: {}", found.off);
            assert!(
                (found.costs[0] - 120.0).abs() < 0.5 + 60.0 * off[0],
                "{off:?}: {:?}",
                found.costs
            );
        }
    }

    #[test]
    fn a_few_times_that_leap_do_not_pull_the_costs_with_them() {
        let (model, mut data) = forty([0.0; 4]);
        for row in 0..4 {
            data.values[row] *= 1.4;
        }
        let found = fit(&model, &data);
        assert!((found.costs[0] - 120.0).abs() < 0.5, "{:?} {}", found.costs, found.off);
    }
}

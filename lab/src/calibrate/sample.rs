//! Draws from what is known of costs after a fit: the prior distributions, which are those that
//! `--cost-seed` draws from, times how well each set of costs explains the host's times; and with
//! them draws of the share by which times are off although costs are right.
//!
//! Metropolis's walk in the directions in which the fit is equally sure: steps are as long as the
//! times allow in each, so that figures whose sum alone is known move together.

use super::fit::{Data, Fitted, LEAST_OFF, prior, prior_of_off};
use super::response::Model;
use super::square::{cholesky, solve_transposed};
use board::cost::Range;

/// Rounds, each with a step in every direction, before the first draw is kept.
const BEFORE: usize = 400;
/// Rounds between draws that are kept.
const BETWEEN: usize = 8;
/// A step's length, in standard deviations of a direction.
const STEP: f64 = 2.0;
/// And of the logarithm of the share that times are off by.
const STEP_OFF: f64 = 0.4;

/// Draws of all figures at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Draws {
    /// In the order of the model's figures.
    pub costs: Vec<Vec<f64>>,
    /// The share that times are off by, of each.
    pub off: Vec<f64>,
}

impl Draws {
    /// Of one figure, sorted.
    pub fn of(&self, figure: usize) -> Vec<f64> {
        let mut values: Vec<f64> = self.costs.iter().map(|draw| draw[figure]).collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    }

    /// The mean and the standard deviation of a figure.
    pub fn moments(&self, figure: usize) -> (f64, f64) {
        let count = self.costs.len().max(1) as f64;
        let mean = self.costs.iter().map(|draw| draw[figure]).sum::<f64>() / count;
        let square =
            self.costs.iter().map(|draw| (draw[figure] - mean).powi(2)).sum::<f64>() / count;
        (mean, square.sqrt())
    }

    /// So many of them, evenly spaced.
    pub fn some(&self, count: usize) -> Vec<&Vec<f64>> {
        let step = (self.costs.len() / count.max(1)).max(1);
        self.costs.iter().step_by(step).take(count).collect()
    }

    /// How two figures go together, from -1 to 1.
    pub fn correlation(&self, a: usize, b: usize) -> f64 {
        let ((mean_a, sd_a), (mean_b, sd_b)) = (self.moments(a), self.moments(b));
        let both = self.costs.iter().map(|draw| (draw[a] - mean_a) * (draw[b] - mean_b));
        let count = self.costs.len().max(1) as f64;
        both.sum::<f64>() / count / (sd_a * sd_b).max(1e-30)
    }
}

/// The value below which a share of sorted values lies.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let place = share * last as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    let of = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
    of(below) + (of(above) - of(below)) * place.fract()
}

/// Takes `count` draws.
pub fn sample(model: &Model, data: &Data, fitted: &Fitted, count: usize) -> Draws {
    let directions = directions(model, data, fitted);
    let mut walk = Walk::new(model, data, fitted);
    let mut kept = Draws { costs: Vec::new(), off: Vec::new() };
    for round in 0..BEFORE + BETWEEN * count {
        directions.iter().for_each(|way| walk.step(way));
        walk.step_off();
        if round >= BEFORE && (round - BEFORE).is_multiple_of(BETWEEN) {
            kept.costs.push(walk.costs.clone());
            kept.off.push(walk.off);
        }
    }
    kept
}

/// Changes of costs in which the fit is equally sure.
fn directions(model: &Model, data: &Data, fitted: &Fitted) -> Vec<Vec<f64>> {
    let figures = model.ranges.len();
    let (slopes, sigmas) = (model.slopes_at(&fitted.costs), data.sigmas(fitted.off));
    // In the costs' own units, where the prior deviates by a share of the cost.
    let narrow = |figure: usize| (fitted.costs[figure] * prior(model.ranges[figure]).1).powi(-2);
    let curve = |a: usize, b: usize| {
        let rows = slopes.iter().zip(&sigmas);
        let data: f64 = rows.map(|(row, sigma)| row[a] * row[b] / (sigma * sigma)).sum();
        data + if a == b { narrow(a) } else { 0.0 }
    };
    let matrix: Vec<Vec<f64>> =
        (0..figures).map(|a| (0..figures).map(|b| curve(a, b)).collect()).collect();
    let Some(lower) = cholesky(&matrix) else { return Vec::new() };
    let unit = |one: usize| (0..figures).map(|other| f64::from(other == one)).collect::<Vec<_>>();
    (0..figures).map(|one| solve_transposed(&lower, &unit(one))).collect()
}

struct Walk<'a> {
    model: &'a Model,
    data: &'a Data,
    costs: Vec<f64>,
    off: f64,
    /// How far the times are from the host's.
    away: Vec<f64>,
    log: f64,
    numbers: u64,
}

impl<'a> Walk<'a> {
    fn new(model: &'a Model, data: &'a Data, fitted: &Fitted) -> Self {
        let mut costs = fitted.costs.clone();
        // A bound itself has no density.
        for (cost, range) in costs.iter_mut().zip(&model.ranges) {
            let margin = (range.high - range.low) * 1e-3;
            *cost = cost.clamp(range.low + margin, range.high - margin);
        }
        let mut walk =
            Self { model, data, costs, off: fitted.off, away: Vec::new(), log: 0.0, numbers: 1 };
        walk.away = walk.away(&walk.costs);
        walk.log = walk.density(&walk.costs, &walk.away, walk.off);
        walk
    }

    fn away(&self, costs: &[f64]) -> Vec<f64> {
        let times = self.model.times(costs);
        self.data.values.iter().zip(&times).map(|(value, time)| value - time).collect()
    }

    fn step(&mut self, way: &[f64]) {
        let length = STEP * self.normal();
        let costs: Vec<f64> =
            self.costs.iter().zip(way).map(|(from, way)| from + length * way).collect();
        let is_possible = costs
            .iter()
            .zip(&self.model.ranges)
            .all(|(cost, range)| triangle(*cost, *range) > f64::NEG_INFINITY);
        let chance = self.uniform().ln();
        if !is_possible {
            return;
        }
        let away = self.away(&costs);
        let log = self.density(&costs, &away, self.off);
        if chance < log - self.log {
            (self.costs, self.away, self.log) = (costs, away, log);
        }
    }

    /// A step of the share that times are off by.
    fn step_off(&mut self) {
        let off = self.off * (STEP_OFF * self.normal()).exp();
        let log = self.density(&self.costs, &self.away, off);
        if self.uniform().ln() < log - self.log && off >= LEAST_OFF / 2.0 {
            (self.off, self.log) = (off, log);
        }
    }

    /// Its logarithm, over costs and the logarithm of the share, but for a constant.
    fn density(&self, costs: &[f64], away: &[f64], off: f64) -> f64 {
        let prior: f64 =
            costs.iter().zip(&self.model.ranges).map(|(cost, range)| triangle(*cost, *range)).sum();
        let rows = away.iter().zip(self.data.sigmas(off)).enumerate();
        let data: f64 = rows
            .map(|(row, (away, sigma))| self.data.deviance(row, away / sigma) / 2.0 + sigma.ln())
            .sum();
        prior + prior_of_off(off, self.data.error) + off.ln() - data
    }

    /// SplitMix64.
    fn uniform(&mut self) -> f64 {
        self.numbers = self.numbers.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let value = (self.numbers ^ self.numbers >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let value = (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (((value ^ value >> 31) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Box's and Muller's.
    fn normal(&mut self) -> f64 {
        let (radius, angle) = (self.uniform(), self.uniform());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }
}

/// The logarithm of a triangular distribution's density, but for a constant.
fn triangle(value: f64, range: Range) -> f64 {
    let Range { low, likely, high } = range;
    if !(low..=high).contains(&value) {
        return f64::NEG_INFINITY;
    }
    let share = match value < likely {
        true => (value - low) / (likely - low),
        false if high > likely => (high - value) / (high - likely),
        false => 1.0,
    };
    share.ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::fit::{fit, tests::data};
    use crate::calibrate::response::tests::model;

    #[test]
    fn draws_are_sure_of_what_times_tell_and_as_unsure_as_before_of_what_they_do_not() {
        let model = model();
        let data = data(&model.times(&[180.0, 130.0, 50.0]));
        let draws = sample(&model, &data, &fit(&model, &data), 400);
        let (mean, sd) = draws.moments(0);
        assert!((mean - 180.0).abs() < 2.0 && sd < 2.0, "{mean} {sd}");
        // Triangular over 20, 50, 80: its mean is 50, its deviation 12.2.
        let (mean, sd) = draws.moments(2);
        assert!((mean - 50.0).abs() < 3.0 && (sd - 12.2).abs() < 2.0, "{mean} {sd}");
    }

    #[test]
    fn a_sum_that_alone_is_known_makes_its_parts_go_against_each_other() {
        let mut model = model();
        model.slopes = vec![vec![1.0, 1.0, 0.0]];
        model.base = vec![200.0];
        model.rows = vec!["sum".into()];
        let data = data(&[230.0]);
        let draws = sample(&model, &data, &fit(&model, &data), 400);
        assert!(draws.correlation(0, 1) < -0.95, "{}", draws.correlation(0, 1));
        assert!(draws.moments(0).1 > 10.0, "{:?}", draws.moments(0));
    }

    #[test]
    fn a_quantile_lies_between_its_neighbours() {
        let sorted = [1.0, 2.0, 4.0];
        for (share, value) in [(0.0, 1.0), (0.5, 2.0), (0.75, 3.0), (1.0, 4.0)] {
            assert_eq!(quantile(&sorted, share), value);
        }
    }
}

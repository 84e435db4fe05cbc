//! Draws from what is known of costs after a fit: the prior distributions, which are those that
//! `--cost-seed` draws from, times how well each set of costs explains the host's times.
//!
//! Metropolis's walk in the directions in which the fit is equally sure: steps are as long as the
//! times allow in each, so that figures whose sum alone is known move together.

use super::fit::{Data, Fitted, prior};
use super::response::Model;
use super::square::{cholesky, solve_transposed};
use board::cost::Range;

/// Rounds, each with a step in every direction, before the first draw is kept.
const BEFORE: usize = 1000;
/// Rounds between draws that are kept.
const BETWEEN: usize = 25;
/// A step's length, in standard deviations of a direction.
const STEP: f64 = 2.0;

/// Draws of all figures at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Draws(pub Vec<Vec<f64>>);

impl Draws {
    /// Of one figure, sorted.
    pub fn of(&self, figure: usize) -> Vec<f64> {
        let mut values: Vec<f64> = self.0.iter().map(|draw| draw[figure]).collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    }

    /// The mean and the standard deviation of a figure.
    pub fn moments(&self, figure: usize) -> (f64, f64) {
        let count = self.0.len().max(1) as f64;
        let mean = self.0.iter().map(|draw| draw[figure]).sum::<f64>() / count;
        let square = self.0.iter().map(|draw| (draw[figure] - mean).powi(2)).sum::<f64>() / count;
        (mean, square.sqrt())
    }

    /// How two figures go together, from -1 to 1.
    pub fn correlation(&self, a: usize, b: usize) -> f64 {
        let ((mean_a, sd_a), (mean_b, sd_b)) = (self.moments(a), self.moments(b));
        let both = self.0.iter().map(|draw| (draw[a] - mean_a) * (draw[b] - mean_b));
        let count = self.0.len().max(1) as f64;
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
    let mut walk = Walk::new(model, data, fitted.costs.clone());
    let mut kept = Vec::new();
    for round in 0..BEFORE + BETWEEN * count {
        for (way, moved) in &directions {
            walk.step(way, moved);
        }
        if round >= BEFORE && (round - BEFORE).is_multiple_of(BETWEEN) {
            kept.push(walk.costs.clone());
        }
    }
    Draws(kept)
}

/// Changes of costs in which the fit is equally sure, with what they change of each time.
fn directions(model: &Model, data: &Data, fitted: &Fitted) -> Vec<(Vec<f64>, Vec<f64>)> {
    let figures = model.ranges.len();
    // In the costs' own units, where the prior deviates by a share of the cost.
    let narrow = |figure: usize| (fitted.costs[figure] * prior(model.ranges[figure]).1).powi(-2);
    let curve = |a: usize, b: usize| {
        let rows = model.slopes.iter().zip(&data.sigmas);
        let data: f64 = rows.map(|(row, sigma)| row[a] * row[b] / (sigma * sigma)).sum();
        data + if a == b { narrow(a) } else { 0.0 }
    };
    let matrix: Vec<Vec<f64>> =
        (0..figures).map(|a| (0..figures).map(|b| curve(a, b)).collect()).collect();
    let Some(lower) = cholesky(&matrix) else { return Vec::new() };
    let unit = |one: usize| (0..figures).map(|other| f64::from(other == one)).collect::<Vec<_>>();
    let ways = (0..figures).map(|one| solve_transposed(&lower, &unit(one)));
    ways.map(|way| {
        let moved = model.slopes.iter().map(|row| row.iter().zip(&way).map(|(a, b)| a * b).sum());
        let moved = moved.collect();
        (way, moved)
    })
    .collect()
}

struct Walk<'a> {
    model: &'a Model,
    data: &'a Data,
    costs: Vec<f64>,
    times: Vec<f64>,
    log: f64,
    numbers: u64,
}

impl<'a> Walk<'a> {
    fn new(model: &'a Model, data: &'a Data, mut costs: Vec<f64>) -> Self {
        // A bound itself has no density.
        for (cost, range) in costs.iter_mut().zip(&model.ranges) {
            let margin = (range.high - range.low) * 1e-3;
            *cost = cost.clamp(range.low + margin, range.high - margin);
        }
        let times = model.times(&costs);
        let mut walk = Self { model, data, costs, times, log: 0.0, numbers: 1 };
        walk.log = walk.density(&walk.costs, &walk.times);
        walk
    }

    fn step(&mut self, way: &[f64], moved: &[f64]) {
        let length = STEP * self.normal();
        let along = |from: &[f64], way: &[f64]| -> Vec<f64> {
            from.iter().zip(way).map(|(from, way)| from + length * way).collect()
        };
        let (costs, times) = (along(&self.costs, way), along(&self.times, moved));
        let log = self.density(&costs, &times);
        if self.uniform().ln() < log - self.log {
            (self.costs, self.times, self.log) = (costs, times, log);
        }
    }

    /// Its logarithm, but for a constant.
    fn density(&self, costs: &[f64], times: &[f64]) -> f64 {
        let prior: f64 =
            costs.iter().zip(&self.model.ranges).map(|(cost, range)| triangle(*cost, *range)).sum();
        if prior == f64::NEG_INFINITY {
            return prior;
        }
        let rows = times.iter().zip(&self.data.values).zip(&self.data.sigmas);
        prior
            - rows.map(|((time, value), sigma)| ((value - time) / sigma).powi(2)).sum::<f64>() / 2.0
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
    use crate::calibrate::fit::fit;
    use crate::calibrate::response::tests::model;

    #[test]
    fn draws_are_sure_of_what_times_tell_and_as_unsure_as_before_of_what_they_do_not() {
        let model = model();
        let data = Data { values: model.times(&[180.0, 130.0, 50.0]), sigmas: vec![0.5; 3] };
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
        let data = Data { values: vec![230.0], sigmas: vec![0.5] };
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

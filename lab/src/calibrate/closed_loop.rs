//! The proof that calibration finds what a host costs: profiles drawn by seed from the sourced
//! ranges run as hosts, which show the fit nothing but their guests' clocks. The fitted profile
//! then predicts workloads that it was not fitted to; the hidden host's own run is the truth.

use super::fit::{Data, Fitted, fit};
use super::measured::{Measured, MeasuredHost};
use super::misfit::Misfit;
use super::place::{Bench, Moment, Place};
use super::response::Model;
use super::sample::{Draws, sample};
use crate::interval::{Interval, interval};
use crate::protocol::Step;
use crate::watch::Watch;
use anyhow::Context;
use board::cost::CostProfile;
use std::collections::BTreeMap;

/// Draws of the first fit for each that is tried out.
const FIRST: usize = 4;
/// Lives of a hidden host's guests, each from another moment, whose mean is what is predicted: one
/// life alone of a mesh differs from the next by a fifth.
const LIVES: u64 = 3;
/// Parts of names of times that the fit leaves out: a processor waits for another one in a loop, so
/// they leap by a turn of it, all at once, and say by each leap what is not so.
const WAITED_FOR: [&str; 2] = ["ipi_acknowledged", "ipi_round_trip"];

/// How a host's times are fitted.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Repetitions of what is measured.
    pub repeats: u32,
    /// The share by which a path's time may be off although all costs are right.
    pub error: f64,
    /// How often the benchmarks run again under what was found so far.
    pub rounds: u32,
    /// Draws after the fit.
    pub draws: usize,
    /// Under how many of them the benchmarks run, and then what is predicted.
    pub trials: usize,
}

/// What is known of a host after its times were fitted.
#[derive(Clone, Debug)]
pub struct Known {
    /// The times as functions of costs, near those that were found.
    pub model: Model,
    /// The times.
    pub data: Data,
    /// The best costs.
    pub fitted: Fitted,
    /// All that are probable.
    pub draws: Draws,
    /// Whether the host is one that costs explain.
    pub misfit: Misfit,
    /// The lab's own host, as it described itself.
    pub lab: Option<MeasuredHost>,
}

/// A prediction with what came true.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Which hidden host.
    pub seed: u64,
    /// Workload, step, setting and figure.
    pub name: String,
    /// What is likely, and the interval at 90 % of one life.
    pub predicted: Interval,
    /// The mean of the hidden host's lives.
    pub truth: f64,
    /// The first of them.
    pub life: f64,
    /// What the base profile predicts without a fit.
    pub unfitted: f64,
}

impl Case {
    /// In percent of the truth, without sign; none of a truth that rounds to zero, as it does where
    /// a timer is never late.
    pub fn error(&self) -> Option<f64> {
        self.percent_off(self.predicted[0])
    }

    /// The same of the profile that was not fitted.
    pub fn unfitted_error(&self) -> Option<f64> {
        self.percent_off(self.unfitted)
    }

    fn percent_off(&self, value: f64) -> Option<f64> {
        (self.truth.abs() >= 0.5).then(|| (value / self.truth - 1.0).abs() * 100.0)
    }

    /// Whether the interval holds the life.
    pub fn is_covered(&self) -> bool {
        (self.predicted[1]..=self.predicted[2]).contains(&self.life)
    }
}

/// Fits a host's times, and runs the benchmarks again at what was found, since prices can change
/// the order of events; then under draws of what is probable, which shows by how much the machine
/// is away from the model's straight lines there, and what the moment changes in which it begins.
pub fn know(
    place: &mut Place<'_>,
    base: &CostProfile,
    model: &Model,
    measured: &Measured,
    options: Options,
    watch: &mut Watch<'_>,
) -> anyhow::Result<Known> {
    let is_fitted = |row: &str| !WAITED_FOR.iter().any(|name| row.contains(name));
    let mut model = model.kept(|row| is_fitted(row) && measured.row(row).is_some());
    anyhow::ensure!(!model.rows.is_empty(), "the host's times are none that the lab measures");
    let plain = Data::of(measured, &model, options.error)?;
    let mut data = plain.clone();
    let mut fitted = fit(&model, &data);
    let mut missed = vec![0.0; model.rows.len()];
    let mut lab = None;
    for round in 0..options.rounds {
        watch.stage("measuring under the fitted costs");
        let profile = model.profile(base, &fitted.costs)?;
        let there = place.calibrate(1, &profile, Moment(round.into()), watch)?;
        let times: Vec<_> = there.rows.into_iter().map(|row| (row.name, row.value)).collect();
        let expected = model.times(&fitted.costs);
        model.recenter(&fitted.costs, &times)?;
        for ((missed, time), expected) in missed.iter_mut().zip(&model.base).zip(expected) {
            *missed = (time - expected).abs().max(*missed);
        }
        data = plain.clone().with(&missed);
        fitted = fit(&model, &data);
        lab = Some(there.host);
    }
    let first = sample(&model, &data, &fitted, FIRST * options.trials);
    let spreads = try_out(place, base, &mut model, &first.some(options.trials), watch)?;
    data = plain.with(&spreads);
    fitted = fit(&model, &data);
    let draws = sample(&model, &data, &fitted, options.draws);
    let misfit = Misfit::of(&model, &data);
    Ok(Known { model, data, fitted, draws, misfit, lab })
}

/// Runs the benchmarks under some costs: the model's times are moved to the machine's in the mean,
/// and by what each still differs is what one more run would, too.
fn try_out(
    place: &mut Place<'_>,
    base: &CostProfile,
    model: &mut Model,
    draws: &[&Vec<f64>],
    watch: &mut Watch<'_>,
) -> anyhow::Result<Vec<f64>> {
    let mut away = vec![Vec::new(); model.rows.len()];
    for (number, costs) in draws.iter().enumerate() {
        watch.stage(&format!("measuring under draw {} of {}", number + 1, draws.len()));
        let profile = model.profile(base, costs)?;
        let there = place.calibrate(1, &profile, Moment(number as u64), watch)?;
        for (row, expected) in model.times(costs).into_iter().enumerate() {
            let own = there.row(&model.rows[row]);
            let own = own.with_context(|| format!("{} was not measured again", model.rows[row]))?;
            away[row].push(own.value - expected);
        }
    }
    let count = draws.len() as f64;
    let spreads = away.iter().zip(&mut model.base).map(|(away, base)| {
        let mean = away.iter().sum::<f64>() / count.max(1.0);
        *base += mean;
        let square = away.iter().map(|one| (one - mean).powi(2)).sum::<f64>();
        (square / (count - 1.0).max(1.0) * (1.0 + 1.0 / count.max(1.0))).sqrt()
    });
    Ok(spreads.collect())
}

/// What a closed loop is about.
#[derive(Clone, Copy, Debug)]
pub struct Loop<'a> {
    /// The profile from whose ranges hosts are drawn.
    pub base: &'a CostProfile,
    /// What times are made of.
    pub model: &'a Model,
    /// What is predicted.
    pub steps: &'a [Step],
    /// What the base profile has for it, without a fit.
    pub unfitted: &'a [(String, f64)],
}

/// What became of a hidden host.
pub struct Seen {
    /// What it measured of itself.
    pub measured: Measured,
    /// What is known of it by that.
    pub known: Known,
    /// What was predicted.
    pub cases: Vec<Case>,
}

/// One hidden host: it is measured, fitted, and its workloads predicted. It begins at moments of
/// its own, which the lab does not know.
pub fn hidden(
    place: &mut Place<'_>,
    of: Loop<'_>,
    seed: u64,
    options: Options,
    watch: &mut Watch<'_>,
) -> anyhow::Result<Seen> {
    let host = of.base.drawn(seed);
    let moment = |number: u64| Moment(1000 + (1 + LIVES) * seed + number);
    watch.stage(&format!("hidden host {seed}: measuring"));
    let measured = place.calibrate_whole(options.repeats, &host, moment(0), watch)?;
    let known = know(place, of.base, of.model, &measured, options, watch)?;
    watch.stage(&format!("hidden host {seed}: predicting"));
    let mut runs = Vec::new();
    for (number, costs) in known.draws.some(options.trials).into_iter().enumerate() {
        let profile = known.model.profile(of.base, costs)?;
        let bench = Bench::Steps(of.steps);
        let run = place.measure(bench, &profile, Moment(number as u64), watch)?;
        runs.push(run.into_iter().collect::<BTreeMap<String, f64>>());
    }
    watch.stage(&format!("hidden host {seed}: what it does"));
    let mut lives = Vec::new();
    for life in 1..=LIVES {
        lives.push(place.measure(Bench::Steps(of.steps), &host, moment(life), watch)?);
    }
    let off = known.draws.off.iter().sum::<f64>() / known.draws.off.len().max(1) as f64;
    let first = lives.first().map(Vec::as_slice).unwrap_or_default();
    let cases = first.iter().filter_map(|(name, life)| {
        let is_it = |(own, _): &&(String, f64)| own == name;
        let all: Vec<f64> =
            lives.iter().filter_map(|life| Some(life.iter().find(is_it)?.1)).collect();
        let values: Vec<f64> = runs.iter().filter_map(|run| run.get(name).copied()).collect();
        let unfitted = of.unfitted.iter().find(is_it)?.1;
        let predicted = interval(&values, off * mean(&values));
        Some(Case { seed, name: name.clone(), predicted, truth: mean(&all), life: *life, unfitted })
    });
    let cases = cases.collect();
    Ok(Seen { measured, known, cases })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

//! The proof that calibration finds what a host costs: profiles drawn by seed from the sourced
//! ranges run as hosts, which show the fit nothing but their guests' clocks. The fitted profile
//! then predicts workloads that it was not fitted to; the hidden host's own run is the truth.

use super::fit::{Data, Fitted, Misfit, fit};
use super::measured::{Measured, MeasuredHost};
use super::place::{Bench, Place};
use super::predict::{Interval, interval};
use super::response::Model;
use super::sample::{Draws, sample};
use crate::protocol::Step;
use crate::watch::Watch;
use board::cost::CostProfile;

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
    /// The median and nine tenths of the draws.
    pub predicted: Interval,
    /// The hidden host's.
    pub truth: f64,
    /// What the base profile predicts without a fit.
    pub unfitted: f64,
}

impl Case {
    /// In percent of the truth, without sign.
    pub fn error(&self) -> f64 {
        (self.predicted[0] / self.truth - 1.0).abs() * 100.0
    }

    /// The same of the profile that was not fitted.
    pub fn unfitted_error(&self) -> f64 {
        (self.unfitted / self.truth - 1.0).abs() * 100.0
    }

    /// Whether the interval holds the truth.
    pub fn is_covered(&self) -> bool {
        (self.predicted[1]..=self.predicted[2]).contains(&self.truth)
    }
}

/// Fits a host's times, and runs the benchmarks again at what was found, since prices can change
/// the order of events.
pub fn know(
    place: &mut Place<'_>,
    base: &CostProfile,
    model: &Model,
    measured: &Measured,
    options: Options,
    watch: &mut Watch<'_>,
) -> anyhow::Result<Known> {
    let mut model = model.kept(|row| measured.row(row).is_some());
    anyhow::ensure!(!model.rows.is_empty(), "the host's times are none that the lab measures");
    let data = Data::of(measured, &model, options.error)?;
    let mut fitted = fit(&model, &data);
    let mut lab = None;
    for _ in 0..options.rounds {
        watch.stage("measuring under the fitted costs");
        let profile = model.profile(base, &fitted.costs)?;
        let there = place.calibrate(1, &profile, watch)?;
        let times: Vec<_> = there.rows.into_iter().map(|row| (row.name, row.value)).collect();
        model.recenter(&fitted.costs, &times)?;
        fitted = fit(&model, &data);
        lab = Some(there.host);
    }
    let draws = sample(&model, &data, &fitted, options.draws);
    let misfit = Misfit::of(&model, &data, &fitted);
    Ok(Known { model, data, fitted, draws, misfit, lab })
}

/// One hidden host: it is measured, fitted, and its workloads predicted.
pub fn hidden(
    place: &mut Place<'_>,
    base: &CostProfile,
    (model, work): (&Model, &Model),
    steps: &[Step],
    seed: u64,
    options: Options,
    watch: &mut Watch<'_>,
) -> anyhow::Result<(Known, Vec<Case>)> {
    let host = base.drawn(seed);
    watch.stage(&format!("hidden host {seed}: measuring"));
    let measured = place.calibrate(options.repeats, &host, watch)?;
    let known = know(place, base, model, &measured, options, watch)?;
    let figures = 0..known.model.figures.len();
    let mean: Vec<f64> = figures.map(|figure| known.draws.moments(figure).0).collect();
    watch.stage(&format!("hidden host {seed}: predicting"));
    let mut work = work.clone();
    let unfitted = work.base.clone();
    let times = place.measure(Bench::Steps(steps), &known.model.profile(base, &mean)?, watch)?;
    work.recenter(&mean, &times)?;
    watch.stage(&format!("hidden host {seed}: what it does"));
    let truth = place.measure(Bench::Steps(steps), &host, watch)?;
    let drawn: Vec<Vec<f64>> = known.draws.0.iter().map(|draw| work.times(draw)).collect();
    let cases = truth.into_iter().filter_map(|(name, truth)| {
        let row = work.rows.iter().position(|own| *own == name)?;
        let predicted = interval(drawn.iter().map(|times| times[row]).collect());
        Some(Case { seed, name, predicted, truth, unfitted: unfitted[row] })
    });
    Ok((known, cases.collect()))
}

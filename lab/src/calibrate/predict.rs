//! What a fitted profile says of workloads: they run under draws of all its figures, each from
//! another moment, so that every time has an interval, and so has its change, in which what both
//! settings share cancels. Nothing is taken to be linear in it: who waits for whom may depend on
//! costs by leaps.

use super::place::{Moment, Place, Time};
use crate::host::Host;
use crate::interval::{Interval, interval};
use crate::plan::{Experiment, Setting};
use crate::protocol::{Guest, Step};
use crate::watch::Watch;
use crate::workload::{Conditions, Workload};
use bench::Configuration;
use board::cost::CostProfile;

/// Of one life: from some seeds, whose mean is told.
const SEEDS: &str = " samples=40 warmup=10 seeds=2";

/// A figure of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// Workload, step and figure.
    pub name: String,
    /// Of its values.
    pub unit: &'static str,
    /// Without the feature.
    pub off: Option<Interval>,
    /// With it.
    pub on: Option<Interval>,
    /// In percent.
    pub change: Option<Interval>,
}

/// What virtual machines measure times in, of a workload that a host of this kind runs in each arm:
/// what is counted is not needed.
pub fn steps(
    workload: &dyn Workload,
    experiment: &Experiment,
    host: &Host,
    limit: u64,
) -> Vec<Step> {
    let configuration = Configuration::default();
    let arms = experiment.arms();
    let all = arms.iter().flat_map(|arm| {
        workload.steps(&Conditions {
            arm,
            configuration: &configuration,
            tsc_khz: host.model.tsc_hertz() / 1000,
            append: "",
            limit,
            posts: host.iommu.is_some_and(|iommu| iommu.part.posts()),
        })
    });
    let mut steps: Vec<Step> = all.collect();
    // A Linux guest's steps are all traced.
    if steps.iter().any(|step| !step.is_traced) {
        steps.retain(|step| !step.is_traced);
    }
    for step in &mut steps {
        step.is_traced = false;
        if let Guest::Benchmark(options) = &mut step.guest {
            options.push_str(SEEDS);
        }
    }
    steps
}

/// Predicts what steps measure, from so many draws of a profile.
pub fn predict(
    place: &mut Place<'_>,
    steps: &[Step],
    profile: &CostProfile,
    draws: u32,
    watch: &mut Watch<'_>,
) -> anyhow::Result<Vec<Predicted>> {
    let mut runs = Vec::new();
    for seed in 0..draws {
        watch.stage(&format!("draw {} of {draws}", seed + 1));
        let (drawn, moment) = (profile.drawn(u64::from(seed)), Moment(u64::from(seed)));
        runs.push(place.work(steps, &drawn, moment, watch)?);
    }
    // By how much paths are off beside, which draws do not show.
    let error = profile.fit.as_ref().map_or(0.0, |fit| fit.off);
    let Some(first) = runs.first() else { return Ok(Vec::new()) };
    let mut names: Vec<_> = first.iter().map(|one| (one.name.clone(), one.unit)).collect();
    names.sort_unstable();
    names.dedup();
    let predicted = names.into_iter().map(|(name, unit)| {
        let of = |setting: Setting| -> Vec<f64> {
            let is_it = |one: &&Time| one.name == name && one.setting == setting;
            runs.iter().filter_map(|run| Some(run.iter().find(is_it)?.value)).collect()
        };
        let (off, on) = (of(Setting::Off), of(Setting::On));
        let both = off.iter().zip(&on).map(|(off, on)| (on / off - 1.0) * 100.0);
        let change: Vec<f64> = both.collect();
        let some = |values: &[f64], more: &dyn Fn(f64) -> f64| {
            let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
            (!values.is_empty()).then(|| interval(values, more(mean)))
        };
        let of_time = |mean: f64| error * mean;
        // Of the ratio of two times, each off by itself.
        let of_change = |mean: f64| error * std::f64::consts::SQRT_2 * (100.0 + mean);
        let (off, on) = (some(&off, &of_time), some(&on, &of_time));
        Predicted { name, unit, off, on, change: some(&change, &of_change) }
    });
    Ok(predicted.collect())
}

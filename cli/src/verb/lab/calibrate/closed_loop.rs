//! `avicenna lab calibrate --closed-loop`: the method's proof, host by host and in sum.

use super::{Arguments, design};
use crate::status::Status;
use crate::terminal;
use analysis::sampled::{context, profile_of};
use anyhow::Context as _;
use board::cost::CostProfile;
use lab::calibrate::closed_loop::{Case, Loop, Seen, hidden};
use lab::calibrate::saving::work;
use lab::calibrate::{Bench, Moment, Place, narrowed, saved, steps};
use lab::drive::session::Session;
use lab::host::Host;
use lab::plan::{Experiment, Setting};
use lab::protocol::Step;
use lab::watch::Watch;
use lab::workload::Chosen;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Percent beyond which a figure that the closed loop predicts is named.
const FAR_MEDIAN: f64 = 5.0;
/// The same of the 90th percentile.
const FAR_NINETIETH: f64 = 12.0;
/// Moments from which hidden hosts record.
const RECORDED: u64 = 500;

/// Fits and predicts one hidden host after the other, and says what came true.
pub(super) fn run(
    arguments: &Arguments,
    (host, workloads): (&Host, &[Chosen]),
    experiment: &Experiment,
    session: &mut Session,
    mut watch: Watch<'_>,
) -> anyhow::Result<ExitCode> {
    let base = host.cost_profile()?;
    let place = &mut Place::new(session);
    let model = &design(place, &base, host, &mut watch)?;
    let limit = arguments.host.limit;
    let all = workloads.iter().flat_map(|one| steps(&**one, experiment, host, limit));
    let all: Vec<Step> = all.collect();
    watch.stage("measuring what is predicted, without a fit");
    let unfitted = place.measure(Bench::Steps(&all), &base, Moment(0), &mut watch)?;
    let of = Loop { base: &base, model, steps: &all, unfitted: &unfitted };
    let (mut cases, mut recordings) = (Vec::new(), Vec::new());
    let first = arguments.first_seed;
    for seed in first..first.saturating_add(arguments.closed_loop.unwrap_or(1)) {
        let options = arguments.options();
        let seen = hidden(place, of, seed, options, &mut watch)?;
        let (known, own) = (&seen.known, &seen.cases);
        let misfit = if known.misfit.is_said() { ", MISFIT" } else { "" };
        terminal::print(&format!(
            "hidden host {seed}: {} of {} times within the interval, off by {:.2} %, chi-squared \
             {:.0} of {}{misfit}\n",
            own.iter().filter(|one| one.is_covered()).count(),
            own.len(),
            known.fitted.off * 100.0,
            known.misfit.chi2,
            known.misfit.freedom,
        ));
        for case in own {
            let Case { predicted: [middle, low, high], truth, life, unfitted, .. } = case;
            terminal::print(&format!(
                "  {}: predicted {middle:.0} ({low:.0} to {high:.0}), was {truth:.0} in the mean, \
                 {life:.0} once; unfitted {unfitted:.0}\n",
                case.name
            ));
        }
        if arguments.recorded {
            watch.stage(&format!("hidden host {seed}: recording exits"));
            let case = recorded(place, (&base, host), experiment, (seed, &seen), &mut watch)?;
            let Case { predicted, truth, unfitted, .. } = &case;
            let [middle, low, high] = predicted.map(|ns| ns / 1e6);
            terminal::print(&format!(
                "  {}: predicted {middle:.2} ms ({low:.2} to {high:.2}), was {:.2}; unfitted {:.2}\n",
                case.name,
                truth / 1e6,
                unfitted / 1e6
            ));
            recordings.push(case);
        }
        cases.extend(seen.cases);
    }
    terminal::print(&summary(&cases));
    if arguments.recorded {
        terminal::print(&line("recordings: what the feature saves,", &recordings));
    }
    Ok(Status::Clean.into())
}

/// What a recording of a hidden host's exits is said to save, and what the feature saves there.
fn recorded(
    place: &mut Place<'_>,
    (base, host): (&CostProfile, &Host),
    experiment: &Experiment,
    (seed, seen): (u64, &Seen),
    watch: &mut Watch<'_>,
) -> anyhow::Result<Case> {
    let of = |setting| experiment.arm(setting).parameters;
    let (off, on) = (of(Setting::Off), of(Setting::On));
    let moment = Moment(RECORDED + seed);
    let worked = work(place, &base.drawn(seed), (&off, &on), moment, watch)?;
    let file = capture::sums::read(worked.recording.as_slice())?;
    let (profile, context) = (profile_of(&file), context(&file.origin, &file.names));
    let total = |costs: &CostProfile| {
        let found = saved((&profile, &file.origin.format), &context, &host.model, costs);
        anyhow::Ok(found.context("the recording does not say whose exits these are")?.total)
    };
    let Seen { measured, known, .. } = seen;
    let is_misfit = known.misfit.is_said();
    let fitted = narrowed(base, measured, &known.model, &known.draws, is_misfit)?;
    let truth = worked.saved_ns(&profile);
    Ok(Case {
        seed,
        name: "what a recording would save".to_owned(),
        predicted: total(&fitted)?,
        truth,
        life: truth,
        unfitted: total(base)?[0],
    })
}

/// What all of them come to, their parts, and what both would hide: the figures that are far off.
fn summary(cases: &[Case]) -> String {
    let zeros = cases.iter().filter(|one| one.error().is_none()).count();
    let mut text = line("predictions", cases);
    for (what, is_part) in parts(cases) {
        let own: Vec<Case> = cases.iter().filter(|one| is_part(&one.name)).cloned().collect();
        if !own.is_empty() && own.len() < cases.len() {
            text += &format!("  {}", line(&what, &own));
        }
    }
    if zeros != 0 {
        text += &format!("{zeros} of them were 0, of which no percent can be told\n");
    }
    let mut figures: BTreeMap<&str, Vec<Case>> = BTreeMap::new();
    for case in cases {
        figures.entry(&case.name).or_default().push(case.clone());
    }
    let all = figures.len();
    let mut far: Vec<(f64, f64, f64, &str)> = figures
        .into_iter()
        .filter_map(|(name, own)| {
            let fitted = Errors::of(&own, Case::error);
            let unfitted = Errors::of(&own, Case::unfitted_error);
            Some((fitted.at(0.9)?, fitted.at(0.5)?, unfitted.at(0.5)?, name))
        })
        .filter(|(ninetieth, median, ..)| *ninetieth > FAR_NINETIETH || *median > FAR_MEDIAN)
        .collect();
    far.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    text += &format!(
        "{} of {all} figures are off by more than {FAR_MEDIAN} % in the median or {FAR_NINETIETH} % in the \
         90th percentile\n",
        far.len()
    );
    for (ninetieth, median, unfitted, name) in far {
        text += &format!(
            "  {name}: median {median:.1} %, 90th percentile {ninetieth:.1} %, without a fit {unfitted:.1} %\n"
        );
    }
    text
}

type IsPart = Box<dyn Fn(&str) -> bool>;

/// Workloads and settings, and whether a case of some name is of each.
fn parts(cases: &[Case]) -> Vec<(String, IsPart)> {
    let workload = |name: &str| name.split(' ').next().unwrap_or_default().to_owned();
    let mut workloads: Vec<String> = cases.iter().map(|one| workload(&one.name)).collect();
    workloads.sort_unstable();
    workloads.dedup();
    let mut parts: Vec<(String, IsPart)> = Vec::new();
    for setting in ["", ", off", ", on"] {
        let all = workloads.iter().map(String::as_str).chain([""]);
        for own in all.map(str::to_owned) {
            let title = format!("of {}{setting}", if own.is_empty() { "all" } else { &own });
            let is_part = move |name: &str| {
                (own.is_empty() || workload(name) == own) && name.ends_with(setting)
            };
            parts.push((title, Box::new(is_part)));
        }
    }
    parts
}

fn line(what: &str, cases: &[Case]) -> String {
    let covered = cases.iter().filter(|one| one.is_covered()).count();
    let (fitted, unfitted) =
        (Errors::of(cases, Case::error), Errors::of(cases, Case::unfitted_error));
    format!(
        "{} {what}: median error {}, 90th percentile {} (without a fit {}, {}); {:.0} % within \
         their interval at 90 %\n",
        cases.len(),
        percent(fitted.at(0.5)),
        percent(fitted.at(0.9)),
        percent(unfitted.at(0.5)),
        percent(unfitted.at(0.9)),
        covered as f64 / cases.len().max(1) as f64 * 100.0
    )
}

/// Errors in percent, the least first.
struct Errors(Vec<f64>);

impl Errors {
    fn of(cases: &[Case], error: fn(&Case) -> Option<f64>) -> Self {
        let mut errors: Vec<f64> = cases.iter().filter_map(error).collect();
        errors.sort_unstable_by(f64::total_cmp);
        Self(errors)
    }

    fn at(&self, share: f64) -> Option<f64> {
        self.0.get((self.0.len() as f64 * share) as usize).copied()
    }
}

fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "unknown".into(), |value| format!("{value:.1} %"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_is_far_off_is_named_though_the_sum_is_good() {
        let case = |name: &str, predicted: f64, seed| Case {
            seed,
            name: name.into(),
            predicted: [predicted, 90.0, 110.0],
            truth: 100.0,
            life: 100.0,
            unfitted: 150.0,
        };
        let mut cases: Vec<Case> = (0..19).map(|seed| case("good", 101.0, seed)).collect();
        cases.push(case("far", 130.0, 0));
        let text = summary(&cases);
        assert!(text.starts_with("20 predictions: median error 1.0 %"), "{text}");
        assert!(text.contains("1 of 2 figures"), "{text}");
        let far = "  far: median 30.0 %, 90th percentile 30.0 %, without a fit 50.0 %";
        assert!(text.lines().any(|line| line == far), "{text}");

        let zero = Case {
            predicted: [5.0, -4.0, 14.0],
            truth: 0.0,
            life: 0.0,
            ..case("never late", 0.0, 0)
        };
        cases.extend([zero.clone(), zero]);
        let text = summary(&cases);
        assert!(text.starts_with("22 predictions: median error 1.0 %"), "{text}");
        assert!(text.contains("2 of them were 0") && text.contains("1 of 3 figures"), "{text}");
        assert!(!text.contains("inf") && !text.contains("NaN"), "{text}");
        assert!(summary(&cases[20..]).starts_with("2 predictions: median error unknown"));
    }
}

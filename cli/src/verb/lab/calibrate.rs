//! `avicenna lab calibrate`: the cost profile of a real host. It is a step of its own, for the host
//! that was measured need not be one on which an emulator and its kernels are wanted.

use super::arguments::HostArguments;
use super::kernel::{Found, kernel};
use super::stages::{INTERRUPT, Stages};
use crate::sandbox::Sandbox;
use crate::status::{Status, Usage};
use crate::terminal;
use crate::verb::source;
use anyhow::{Context, anyhow, bail};
use board::cost::CostProfile;
use change::Like;
use lab::calibrate::closed_loop::{Case, Known, Loop, Options, hidden, know};
use lab::calibrate::{
    Bench, Measured, Model, Moment, Place, mitigations, narrowed, steps, to_text,
};
use lab::drive::session::Session;
use lab::host::{Host, image};
use lab::plan::{Experiment, Needs, Setting};
use lab::protocol::{Step, Stream};
use lab::watch::{Told, Watch};
use lab::workload::Chosen;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// More than any host's times.
const LARGEST_FILE: u64 = 16 << 20;
/// How often the benchmarks run again under what was found so far.
const ROUNDS: u32 = 2;
/// Draws after the fit.
const DRAWS: usize = 600;
/// Under how many of them everything runs again.
const TRIALS: usize = 8;
/// Lives of a hidden host's guest, as many as bench calibrate has if it is not told.
const REPEATS: u32 = 5;
/// Percent beyond which a figure that the closed loop predicts is named.
const FAR_MEDIAN: f64 = 5.0;
/// The same of the 90th percentile.
const FAR_NINETIETH: f64 = 12.0;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// What bench calibrate measured on the host
    #[arg(value_name = "MEASURED.json", required_unless_present = "closed_loop")]
    measured: Option<PathBuf>,
    /// Write the host's cost profile here, for --costs
    #[arg(long, short, value_name = "FILE.toml")]
    output: Option<PathBuf>,
    /// By how much of it a path's time may be off although all costs are right, in percent; by how
    /// much it is, the times tell. More is a misfit. 3 is an assumption: the lab's kernel takes
    /// other paths than the host's
    #[arg(long, value_name = "PERCENT", default_value_t = 3.0)]
    error: f64,
    /// Prove the method instead: so many profiles drawn by seed run as hosts, and their fitted
    /// profiles predict workloads that they were not fitted to
    #[arg(long, value_name = "N", conflicts_with_all = ["measured", "output"], value_parser = clap::value_parser!(u64).range(1..=1000))]
    closed_loop: Option<u64>,
    /// The first of these seeds
    #[arg(long, value_name = "N", default_value_t = 1, requires = "closed_loop")]
    first_seed: u64,
    /// Workloads that the closed loop predicts: those that a benchmark guest runs
    #[arg(long = "predict", value_name = "WORKLOAD", requires = "closed_loop", default_values = ["timer", "mesh"])]
    workloads: Vec<String>,
    #[command(flatten)]
    host: HostArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if !(0.01..=50.0).contains(&arguments.error) {
        let error = arguments.error;
        return Err(Usage::of(anyhow!("--error {error}: must be from 0.01 to 50 percent")));
    }
    let workloads = arguments.chosen()?;
    let measured = arguments.measured.as_deref().map(read).transpose().map_err(Usage::of)?;
    let host = arguments.host.host()?;
    if let Some(measured) = &measured {
        check(measured, &host).map_err(Usage::of)?;
    }
    let mut stages = Stages::open();
    // What the emulated host's own program says is not this one's output.
    let mut tell = |told: Told<'_>| match told {
        Told::Wrote(Stream::Output | Stream::Errors, _) => {}
        other => stages.tell(other),
    };
    let mut watch = Watch::new(&INTERRUPT, arguments.host.patience(), &mut tell);
    let Found::Kernel(kernel) = kernel(&arguments.host, &host, &[], &mut watch)? else {
        bail!("calibration needs KVM on the emulated host, and so a kernel: see --kernel");
    };
    let additions = arguments.host.additions();
    let initramfs = image::initramfs(&kernel, &host, &additions, &Needs::default());
    let initramfs = initramfs.map_err(Usage::of)?;
    let store = arguments.host.store();
    let mut sandbox = Sandbox::default();
    let output = arguments.output.as_deref().map(|path| sandbox.output(path)).transpose()?;
    arguments.host.shut_in(&mut sandbox);
    let is_on = measured.as_ref().is_none_or(|measured| measured.host.is_on);
    let setting = if is_on { Setting::On } else { Setting::Off };
    let experiment = Experiment::of_model(&host.model, &Setting::BOTH);
    let parameters = experiment.arm(setting).parameters;
    let boot = |host: &Host, watch: &mut Watch<'_>| {
        let mut session = Session::start(host, &kernel, &initramfs, store.as_ref(), watch)?;
        session.load(&parameters, watch)?;
        anyhow::Ok(session)
    };
    let Some(measured) = measured else {
        let mut session = boot(&host, &mut watch)?;
        return closed_loop(arguments, (&host, &workloads), &experiment, &mut session, watch);
    };
    let (known, words) = known(arguments, &host, &measured, &boot, &mut watch)?;
    let is_misfit = known.misfit.is_said();
    let base = host.cost_profile()?;
    let profile = narrowed(&base, &measured, &known.model, &known.draws, is_misfit)?;
    stages.close();
    terminal::print(&to_text(&measured, &known, terminal::columns()));
    terminal::print(&differences(&measured, &known, &kernel.name));
    if !words.is_empty() {
        terminal::print(&format!(
            "The lab's kernel was told {words}, as the host says of itself: with this profile, \
             the lab needs --append \"{words}\", too\n"
        ));
    }
    if let Some(mut output) = output {
        output.write_all(profile.to_toml().as_bytes())?;
        output.finish(Like::Umask)?;
    }
    Ok(if is_misfit { Status::Findings } else { Status::Clean }.into())
}

/// Boots a host that is ready to measure.
type Boot<'a> = dyn Fn(&Host, &mut Watch<'_>) -> anyhow::Result<Session> + 'a;

/// What is known of a host by a lab whose kernel mitigates what the host's does, and the words by
/// which it was told to.
fn known(
    arguments: &Arguments,
    host: &Host,
    measured: &Measured,
    boot: &Boot<'_>,
    watch: &mut Watch<'_>,
) -> anyhow::Result<(Known, String)> {
    let (base, there) = (host.cost_profile()?, &measured.host.mitigations);
    let fit = |session: &mut Session, watch: &mut Watch<'_>| {
        let mut place = Place::new(session);
        let model = design(&mut place, &base, host, watch)?;
        know(&mut place, &base, &model, measured, arguments.options(), watch)
    };
    let mut session = boot(host, watch)?;
    let own = Place::new(&mut session).calibrate(1, &base, Moment(0), watch)?;
    let words = mitigations::words(there, &own.host.mitigations);
    if !words.is_empty() {
        session = boot(&host.told(&words), watch)?;
        return Ok((fit(&mut session, watch)?, words));
    }
    let mut known = fit(&mut session, watch)?;
    if known.misfit.is_said() && there.is_empty() {
        drop(session);
        let mut session = boot(&host.told(mitigations::ALL_OFF), watch)?;
        let off = fit(&mut session, watch)?.misfit.off;
        known.misfit.without_mitigations = known.misfit.is_explained_by(off).then_some(off);
    }
    Ok((known, words))
}

/// What times are made of.
fn design(
    place: &mut Place<'_>,
    base: &CostProfile,
    host: &Host,
    watch: &mut Watch<'_>,
) -> anyhow::Result<Model> {
    let gigahertz = host.model.core_hertz() as f64 / 1e9;
    Model::of(base, gigahertz, watch, |profile, watch| {
        place.measure(Bench::Calibrate(1), profile, Moment(0), watch)
    })
}

impl Arguments {
    /// What the closed loop predicts.
    fn chosen(&self) -> anyhow::Result<Vec<Chosen>> {
        let all = self.workloads.iter().map(|name| {
            let refused = |why: String| Usage::of(anyhow!("--predict {name}: {why}"));
            let workload: Chosen = name.parse().map_err(refused)?;
            match workload.benchmark() {
                Some(_) => Ok(workload),
                None => Err(refused("a benchmark guest does not run it".to_owned())),
            }
        });
        all.collect()
    }

    fn options(&self) -> Options {
        let error = self.error / 100.0;
        Options { repeats: REPEATS, error, rounds: ROUNDS, draws: DRAWS, trials: TRIALS }
    }
}

fn read(path: &Path) -> anyhow::Result<Measured> {
    let text = source::text(path, LARGEST_FILE, "the most that is read")?;
    Measured::parse(&text).with_context(|| path.display().to_string())
}

/// The lab's host has to be of the part that was measured.
fn check(measured: &Measured, host: &Host) -> anyhow::Result<()> {
    let own = format!("{:#x}", host.model.signature());
    let family = |signature: &str| {
        u32::from_str_radix(signature.trim_start_matches("0x"), 16).map(|bits| bits & 0x0FF0_0F00)
    };
    let theirs = &measured.host.signature;
    anyhow::ensure!(
        family(theirs).is_ok() && family(theirs) == family(&own),
        "the host's processor has the signature {theirs}, the lab's {own}: choose the model of its \
         family by --cpu"
    );
    Ok(())
}

/// In what the host that was measured and the lab's differ beside their costs.
fn differences(measured: &Measured, known: &Known, kernel: &str) -> String {
    let host = &measured.host;
    let mut text = format!("The host ran Linux {}, the lab {kernel}\n", host.kernel);
    let own = env!("CARGO_PKG_VERSION");
    if measured.program != own {
        text += &format!("The host's avicenna is {}, this one {own}\n", measured.program);
    }
    for (weakness, there) in &host.mitigations {
        match known.lab.as_ref().and_then(|lab| lab.mitigations.get(weakness)) {
            Some(here) if here != there => {
                text += &format!("{weakness}: \"{there}\" on the host, \"{here}\" in the lab\n");
            }
            _ => {}
        }
    }
    text
}

fn closed_loop(
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
    let mut cases = Vec::new();
    let first = arguments.first_seed;
    for seed in first..first.saturating_add(arguments.closed_loop.unwrap_or(1)) {
        let options = arguments.options();
        let (known, own) = hidden(place, of, seed, options, &mut watch)?;
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
        for case in &own {
            let [middle, low, high] = case.predicted;
            terminal::print(&format!(
                "  {}: predicted {middle:.0} ({low:.0} to {high:.0}), was {:.0}; unfitted {:.0}\n",
                case.name, case.truth, case.unfitted
            ));
        }
        cases.extend(own);
    }
    terminal::print(&summary(&cases));
    Ok(Status::Clean.into())
}

/// What all of them come to, and what the sum would hide: the figures that are far off.
fn summary(cases: &[Case]) -> String {
    let covered = cases.iter().filter(|one| one.is_covered()).count();
    let (fitted, unfitted) = (sorted(cases, Case::error), sorted(cases, Case::unfitted_error));
    let mut text = format!(
        "{} predictions: median error {:.1} %, 90th percentile {:.1} % (without a fit {:.1} %, {:.1} %); \
         {:.0} % within their interval at 90 %\n",
        cases.len(),
        at(&fitted, 0.5),
        at(&fitted, 0.9),
        at(&unfitted, 0.5),
        at(&unfitted, 0.9),
        covered as f64 / cases.len().max(1) as f64 * 100.0
    );
    let mut figures: BTreeMap<&str, Vec<Case>> = BTreeMap::new();
    for case in cases {
        figures.entry(&case.name).or_default().push(case.clone());
    }
    let all = figures.len();
    let mut far: Vec<(f64, f64, f64, &str)> = figures
        .into_iter()
        .map(|(name, own)| {
            let (fitted, unfitted) =
                (sorted(&own, Case::error), sorted(&own, Case::unfitted_error));
            (at(&fitted, 0.9), at(&fitted, 0.5), at(&unfitted, 0.5), name)
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

fn sorted(cases: &[Case], error: fn(&Case) -> f64) -> Vec<f64> {
    let mut errors: Vec<f64> = cases.iter().map(error).collect();
    errors.sort_unstable_by(f64::total_cmp);
    errors
}

fn at(errors: &[f64], share: f64) -> f64 {
    errors.get((errors.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN)
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
            unfitted: 150.0,
        };
        let mut cases: Vec<Case> = (0..19).map(|seed| case("good", 101.0, seed)).collect();
        cases.push(case("far", 130.0, 0));
        let text = summary(&cases);
        assert!(text.starts_with("20 predictions: median error 1.0 %"), "{text}");
        assert!(text.contains("1 of 2 figures"), "{text}");
        let far = "  far: median 30.0 %, 90th percentile 30.0 %, without a fit 50.0 %";
        assert!(text.lines().any(|line| line == far), "{text}");
    }
}

//! `avicenna lab calibrate`: the cost profile of a real host. It is a step of its own, for the host
//! that was measured need not be one on which an emulator and its kernels are wanted.

mod closed_loop;

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
use lab::calibrate::closed_loop::{Known, Options, know};
use lab::calibrate::{Bench, Measured, Model, Moment, Place, mitigations, narrowed, to_text};
use lab::drive::session::Session;
use lab::host::{Host, image};
use lab::plan::{Experiment, Needs, Setting};
use lab::protocol::Stream;
use lab::watch::{Told, Watch};
use lab::workload::Chosen;
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
    /// The closed loop's hosts have the feature switched off while they are measured
    #[arg(long, requires = "closed_loop")]
    off: bool,
    /// Workloads that the closed loop predicts: those that a benchmark guest runs
    #[arg(long = "predict", value_name = "WORKLOAD", requires = "closed_loop", default_values = ["timer", "mesh"])]
    workloads: Vec<String>,
    /// The closed loop's hosts also record exits with the feature off: what lab predict says that
    /// it would save is compared with what it saves there
    #[arg(long, requires = "closed_loop")]
    recorded: bool,
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
    let is_on = measured.as_ref().map_or(!arguments.off, |measured| measured.host.is_on);
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
        return closed_loop::run(arguments, (&host, &workloads), &experiment, &mut session, watch);
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

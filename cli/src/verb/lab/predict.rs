//! `avicenna lab predict`: what a host would measure with the feature off and on, by its profile;
//! of a recording, what it would save.

mod recorded;

use super::arguments::HostArguments;
use super::kernel::{Found, kernel};
use super::stages::{INTERRUPT, Stages};
use crate::sandbox::Sandbox;
use crate::status::{Status, Usage};
use crate::terminal;
use anyhow::{Context, bail};
use board::cost::CostProfile;
use lab::calibrate::{Interval, Place, Predicted, predict, steps};
use lab::drive::session::Session;
use lab::host::image;
use lab::plan::{Experiment, Setting};
use lab::watch::{Told, Watch};
use lab::workload::{self, Chosen};
use report::grid::{Grid, Value};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Exits that were recorded on the host without the feature, by exits record or another
    /// program: what it would save there, computed without a run
    #[arg(value_name = "RECORDING", conflicts_with_all = ["workload", "draws"])]
    recording: Option<PathBuf>,
    #[arg(long, value_name = "WORKLOAD", default_value = "ipi", help = workload::summaries())]
    workload: String,
    /// Under how many draws of the profile's figures it runs; of a profile that lab calibrate wrote
    /// they are draws of what is known after the fit, of another one from the ranges of its sources
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=60))]
    draws: u32,
    #[command(flatten)]
    host: HostArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if let Some(recording) = &arguments.recording {
        return recorded::run(recording, &arguments.host.host()?);
    }
    let workload: Chosen = arguments
        .workload
        .parse()
        .map_err(anyhow::Error::msg)
        .context("--workload")
        .map_err(Usage::of)?;
    let needs = workload.needs();
    let host = arguments.host.host_for(&needs)?;
    let mut stages = Stages::open();
    let mut tell = |told: Told<'_>| stages.tell(told);
    let mut watch = Watch::new(&INTERRUPT, arguments.host.patience(), &mut tell);
    let found = kernel(&arguments.host, &host, needs.modules, &mut watch)?;
    let Found::Kernel(kernel) = found else {
        bail!("a prediction needs KVM on the emulated host, and so a kernel: see --kernel");
    };
    let additions = arguments.host.additions();
    let initramfs = image::initramfs(&kernel, &host, &additions, &needs).map_err(Usage::of)?;
    let store = arguments.host.store();
    arguments.host.shut_in(&mut Sandbox::default());
    let mut session = Session::start(&host, &kernel, &initramfs, store.as_ref(), &mut watch)?;
    let experiment = Experiment::of_model(&host.model, &Setting::BOTH);
    let profile = host.cost_profile()?;
    let all = steps(&*workload, &experiment, &host, arguments.host.limit);
    let mut place = Place::new(&mut session);
    let predicted = predict(&mut place, &all, &profile, arguments.draws, &mut watch)?;
    stages.close();
    let of = whence(&profile);
    terminal::print(&format!(
        "{}, {} off and on, by {} draws of the cost profile {} ({of}); median and 90 % interval\n{}",
        workload.title(),
        experiment.name(),
        arguments.draws,
        profile.name,
        grid(&predicted).to_text_within(terminal::columns())
    ));
    Ok(Status::Clean.into())
}

/// Whence the profile's figures are.
fn whence(profile: &CostProfile) -> String {
    match &profile.fit {
        Some(fit) if fit.misfit => {
            format!("fitted to {}, whose times it does NOT explain: misfit", fit.host)
        }
        Some(fit) => format!("fitted to {}", fit.host),
        None => "not fitted: intervals are those of its sources".to_owned(),
    }
}

fn grid(predicted: &[Predicted]) -> Grid {
    let columns = ["figure", "unit", "off", "on", "change_percent"];
    let mut grid = Grid::new("Predicted", &columns);
    for Predicted { name, unit, off, on, change } in predicted {
        grid.rows.push(vec![
            Value::text(name.as_str()),
            Value::text(*unit),
            shown(off.as_ref(), 0),
            shown(on.as_ref(), 0),
            shown(change.as_ref(), 1),
        ]);
    }
    grid
}

fn shown(interval: Option<&Interval>, digits: usize) -> Value {
    match interval {
        Some([middle, low, high]) => {
            Value::text(format!("{middle:.digits$} ({low:.digits$} to {high:.digits$})"))
        }
        None => Value::Missing,
    }
}

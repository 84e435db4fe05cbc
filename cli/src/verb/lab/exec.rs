//! `avicenna lab exec`: a command on the emulated host.

use super::arguments::HostArguments;
use super::stages::Stages;
use super::{INTERRUPT, real_kernel, status_of};
use crate::status::Usage;
use arch::time::Picoseconds;
use change::Like;
use lab::drive::recording::Recording;
use lab::drive::session::Session;
use lab::host::image;
use lab::plan::{Experiment, Needs, Setting};
use lab::watch::{Told, Watch};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    host: HostArguments,
    /// With KVM's module loaded so that the feature is off: avic=0 or enable_apicv=0
    #[arg(long)]
    off: bool,
    /// Write there, as JSON, how many VM exits the machine itself performed meanwhile
    #[arg(long, value_name = "FILE")]
    counters: Option<PathBuf>,
    /// The verb or program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// The command's output and exit status are this one's.
pub(super) fn run(arguments: &Arguments, verbs: &[&str]) -> anyhow::Result<ExitCode> {
    let host = arguments.host.host()?;
    let mut stages = Stages::open();
    let mut tell = |told: Told<'_>| stages.tell(told);
    let mut watch = Watch::new(&INTERRUPT, arguments.host.patience(), &mut tell);
    let kernel = real_kernel(&arguments.host, &host, &mut watch)?;
    let additions = arguments.host.additions();
    let mut initramfs =
        image::initramfs(&kernel, &host, &additions, &Needs::default()).map_err(Usage::of)?;
    let command = image::with_command(&mut initramfs, &arguments.command, verbs);
    let command = command.map_err(Usage::of)?;
    let store = arguments.host.store();
    let mut session = Session::start(&host, &kernel, &initramfs, store.as_ref(), &mut watch)?;
    let setting = if arguments.off { Setting::Off } else { Setting::On };
    let arm = Experiment::of_model(&host.model, &[setting]).arm(setting);
    watch.stage(&arguments.command.join(" "));
    session.load(&arm.parameters, &mut watch)?;
    let limit = Picoseconds::from_milliseconds(arguments.host.limit.saturating_mul(1000));
    let notes = [("command".to_owned(), arguments.command.join(" "))];
    let trace = arguments.host.trace.as_deref();
    session.record(trace.map(|path| Recording::create(path, &notes)).transpose()?);
    let status = session.run(&command, limit, &mut watch)?;
    if let Some(recording) = session.take_recording() {
        session.name_code(&recording, &mut watch)?;
        recording.finish()?;
    }
    stages.close();
    if let Some(path) = &arguments.counters {
        let counts = serde_json::to_vec_pretty(&session.counters().all().exits)?;
        change::Output::write(path, &counts, Like::Umask)?;
    }
    Ok(status_of(status))
}

//! `avicenna lab exec`: a command on the emulated host.

use super::arguments::HostArguments;
use super::stages::Stages;
use super::{INTERRUPT, real_kernel, status_of};
use crate::sandbox::Sandbox;
use crate::status::Usage;
use arch::time::Picoseconds;
use change::Like;
use lab::drive::recording::Recording;
use lab::drive::session::Session;
use lab::host::image;
use lab::plan::{Experiment, Needs, Setting};
use lab::watch::{Told, Watch};
use std::io::Write;
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
    let notes = [("command".to_owned(), arguments.command.join(" "))];
    let trace = arguments.host.trace.as_deref();
    let trace = trace.map(|path| Recording::create(path, &notes)).transpose()?;
    let mut sandbox = Sandbox::default();
    let counters = arguments.counters.as_deref();
    let counters = counters.map(|path| sandbox.output(path)).transpose()?;
    arguments.host.shut_in(&mut sandbox);
    let mut session = Session::start(&host, &kernel, &initramfs, store.as_ref(), &mut watch)?;
    let setting = if arguments.off { Setting::Off } else { Setting::On };
    let arm = Experiment::of_model(&host.model, &[setting]).arm(setting);
    watch.stage(&arguments.command.join(" "));
    session.load(&arm.parameters, &mut watch)?;
    let limit = Picoseconds::from_milliseconds(arguments.host.limit.saturating_mul(1000));
    session.record(trace);
    let status = session.run(&command, limit, &mut watch)?;
    if let Some(mut recording) = session.take_recording() {
        session.name_code(&mut recording, &mut watch)?;
        recording.finish()?;
    }
    stages.close();
    if let Some(mut output) = counters {
        output.write_all(&serde_json::to_vec_pretty(&session.counters().all().exits)?)?;
        output.finish(Like::Umask)?;
    }
    Ok(status_of(status))
}

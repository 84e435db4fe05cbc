//! `avicenna lab shell`: the emulated host at the terminal.

use super::arguments::HostArguments;
use super::kernel::real_kernel;
use super::keyboard::size_of_terminal;
use super::share;
use super::stages::{INTERRUPT, Stages, status_of};
use crate::sandbox::Sandbox;
use crate::status::Usage;
use lab::drive::session::{Session, shell_status};
use lab::host::image;
use lab::plan::{Experiment, Needs, Setting};
use lab::watch::{Told, Watch};
use std::process::ExitCode;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    host: HostArguments,
    #[command(flatten)]
    share: share::Arguments,
}

/// The shell's exit status is this one's.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut host = arguments.host.host()?;
    arguments.share.add_to(&mut host)?;
    let mut stages = Stages::open();
    let mut tell = |told: Told<'_>| stages.tell(told);
    let mut watch = Watch::new(&INTERRUPT, arguments.host.patience(), &mut tell);
    let kernel = real_kernel(&arguments.host, &host, &mut watch)?;
    let additions = arguments.host.additions();
    let mut initramfs =
        image::initramfs(&kernel, &host, &additions, &Needs::default()).map_err(Usage::of)?;
    image::with_shell(&mut initramfs)?;
    let store = arguments.host.store();
    let mut sandbox = Sandbox::default();
    arguments.share.name_inputs(&mut sandbox);
    arguments.host.shut_in(&mut sandbox);
    let mut session = Session::start(&host, &kernel, &initramfs, store.as_ref(), &mut watch)?;
    arguments.share.mount(&mut session, &mut watch)?;
    let (rows, columns) = size_of_terminal();
    let arm = Experiment::of_model(&host.model, &[Setting::On]).arm(Setting::On);
    let mut machine = session.into_shell(rows, columns, &arm.parameters)?;
    stages.close();
    let left = crate::verb::machine::interact(&mut machine, &INTERRUPT)?;
    Ok(shell_status(&mut machine)?.map_or(left, status_of))
}

//! `avicenna machine`: run software on the emulated computer.

use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Arguments {}

pub fn run(_arguments: Arguments) -> anyhow::Result<ExitCode> {
    anyhow::bail!("the machine is not built yet")
}

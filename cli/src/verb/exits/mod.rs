//! `avicenna exits`: where the VM exits go.

mod analyse;
mod arguments;
mod progress;
mod report;

use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// What a recording says about its exits
    Report(report::Arguments),
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.verb {
        Verb::Report(arguments) => report::run(arguments),
    }
}

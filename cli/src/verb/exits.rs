//! `avicenna exits`: where the VM exits go.

mod arguments;
mod beside;
mod compare;
mod counters;
mod events;
#[cfg(feature = "terminal")]
mod inhibits;
mod interrupt;
mod live;
mod output;
mod progress;
mod record;
mod report;
#[cfg(feature = "terminal")]
mod screen;
pub(super) mod watch;

pub use output::{Reader, write};
pub use report::by_machine;
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
    /// What changed between two recordings, and whether they show it
    Compare(compare::Arguments),
    /// Exits of the running host into a file
    Record(record::Arguments),
    /// Exits of the running host on the terminal
    Live(live::Arguments),
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.verb {
        Verb::Report(arguments) => report::run(arguments),
        Verb::Compare(arguments) => compare::run(arguments),
        Verb::Record(arguments) => record::run(arguments),
        Verb::Live(arguments) => live::run(arguments),
    }
}

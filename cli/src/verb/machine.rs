//! `avicenna machine`: run software on the emulated computer.

mod build;
mod closing;
mod composition;
pub mod console;
pub mod devices;
mod ending;
mod firmware;
pub mod gdb;
mod inspect;
mod interact;
mod list_cpus;
mod list_variants;
pub mod model;
pub mod monitor;
pub mod platform;
mod price;
mod run;
mod serial_port;
mod serve;
pub mod share;
pub mod size;
mod snapshot;
mod socket;
pub mod symbols;
mod test;
mod trace;

pub use interact::interact;

use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Boot a Linux bzImage, a PVH vmlinux or a Multiboot image
    Run(Box<run::Arguments>),
    /// Serve a machine to a fuzzer or a test program: marks, memory, runs, events, coverage
    Serve(Box<serve::Arguments>),
    /// Run self-checking images, and report as TAP or JUnit
    Test(test::Arguments),
    /// Show what a snapshot holds: registers, APICs, IOMMU, control blocks, translations
    Inspect(inspect::Arguments),
    /// The CPU models and their features
    ListCpus(list_cpus::Arguments),
    /// Errata and points that the manuals leave open, for --variant
    ListVariants(list_variants::Arguments),
    /// Print a trace of a run, or export it
    Trace(trace::Arguments),
    /// What a run's time consists of, and what it takes at other costs or another clock
    Price(price::Arguments),
}

/// `machine run` with options of its own; its exit status as a number.
pub fn run_words(words: &[String]) -> anyhow::Result<u8> {
    #[derive(clap::Parser)]
    struct Run {
        #[command(flatten)]
        arguments: run::Arguments,
    }
    let words = std::iter::once("avicenna").chain(words.iter().map(String::as_str));
    run::status_of_run(&<Run as clap::Parser>::try_parse_from(words)?.arguments)
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.action {
        Action::Run(arguments) => run::run(&arguments),
        Action::Serve(arguments) => serve::run(&arguments),
        Action::Test(arguments) => test::run(&arguments),
        Action::Inspect(arguments) => inspect::run(&arguments),
        Action::ListCpus(arguments) => list_cpus::run(&arguments),
        Action::ListVariants(arguments) => list_variants::run(&arguments),
        Action::Trace(arguments) => trace::run(&arguments),
        Action::Price(arguments) => price::run(&arguments),
    }
}

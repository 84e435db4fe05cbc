//! `avicenna`: one binary for operators and for authors of hypervisors. One file per verb.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod outcome;
#[cfg(test)]
mod sources;
mod status;
#[macro_use]
mod terminal;
mod qemu;
mod sandbox;
mod verb;

use clap::{CommandFactory, Parser, Subcommand};
use std::io::ErrorKind;
use std::process::ExitCode;
use std::sync::LazyLock;

/// Whether this program was built with a feature, as `--version` shows it.
macro_rules! feature {
    ($name:literal) => {
        if cfg!(feature = $name) { concat!(" +", $name) } else { concat!(" -", $name) }
    };
}

/// The version, and what was left out of the build.
static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let features = [feature!("bpf"), feature!("parquet"), feature!("terminal")].concat();
    format!("{}\nfeatures:{features}", env!("CARGO_PKG_VERSION"))
});

/// Hardware-accelerated interrupt virtualization: understood, switched on, measured, emulated.
#[derive(Parser)]
#[command(name = "avicenna", version, long_version = LONG_VERSION.as_str(), max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Can this host accelerate interrupts, and does it
    Check(verb::check::Arguments),
    /// Which setting keeps the feature from a running VM, and the line that changes it
    Why(verb::why::Arguments),
    /// A plan that switches the feature on here, and with --apply the plan carried out
    Enable(verb::enable::Arguments),
    /// Take back what enable did
    Rollback(verb::rollback::Arguments),
    /// Will a configuration let interrupts be accelerated, and what to change in it
    Lint(verb::lint::Arguments),
    /// Everything known of a host, its virtual machines and recordings, on one page to share
    Report(verb::report::Arguments),
    /// Collect a host's raw inputs in one file, redacted
    Snapshot(verb::snapshot::Arguments),
    /// An emulated x86-64 multiprocessor
    Machine(verb::machine::Arguments),
    /// Where the VM exits go, and what interrupt virtualization would save
    Exits(verb::exits::Arguments),
    /// What interrupts cost in a virtual machine on this host's KVM
    Bench(verb::bench::Arguments),
    /// Boot a distribution's kernel on the emulated machine and compare guests, feature off and on
    Lab(verb::lab::Arguments),
    /// Did it help: switch something, run work in random order, compare; on a host or in the lab
    Experiment(verb::experiment::Arguments),
    /// machine run with QEMU's options, for scripts that were written for QEMU; also by the name
    /// avicenna-qemu
    Qemu(qemu::Arguments),
    /// Man pages and shell completions
    #[command(hide = true)]
    Generate(verb::generate::Arguments),
}

fn main() -> ExitCode {
    lab::agent::take_over();
    if let Some(options) = qemu::called() {
        return qemu::emulate(&options);
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(asked) => return told(&asked),
    };
    let outcome = match arguments.verb {
        Verb::Check(arguments) => verb::check::run(arguments),
        Verb::Why(arguments) => verb::why::run(arguments),
        Verb::Enable(arguments) => verb::enable::run(arguments),
        Verb::Rollback(arguments) => verb::rollback::run(arguments),
        Verb::Lint(arguments) => verb::lint::run(arguments),
        Verb::Report(arguments) => verb::report::run(arguments),
        Verb::Snapshot(arguments) => verb::snapshot::run(arguments),
        Verb::Generate(arguments) => verb::generate::run(arguments, Arguments::command()),
        Verb::Machine(arguments) => verb::machine::run(arguments),
        Verb::Qemu(arguments) => return qemu::run(&arguments),
        Verb::Exits(arguments) => verb::exits::run(arguments),
        Verb::Bench(arguments) => verb::bench::run(arguments),
        Verb::Experiment(arguments) => verb::experiment::run(arguments),
        Verb::Lab(arguments) => {
            let command = Arguments::command();
            let verbs: Vec<&str> = command.get_subcommands().map(|verb| verb.get_name()).collect();
            verb::lab::run(arguments, &verbs)
        }
    };
    let status = outcome.unwrap_or_else(|error| {
        remark!("avicenna: {}", status::told(&error));
        status::of_error(&error).into()
    });
    match terminal::lost() {
        Some(why) => {
            remark!("avicenna: the result could not be written to standard output: {why}");
            status::without_result(status)
        }
        None => status,
    }
}

/// Help and usage, which cannot always be written either.
fn told(asked: &clap::Error) -> ExitCode {
    let is_lost = asked.print().is_err_and(|error| error.kind() != ErrorKind::BrokenPipe);
    let status = ExitCode::from(u8::try_from(asked.exit_code()).unwrap_or(u8::MAX));
    if is_lost { status::without_result(status) } else { status }
}

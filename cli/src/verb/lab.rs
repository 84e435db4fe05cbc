//! `avicenna lab`: a host that is emulated, with the feature off and on.

mod arguments;
mod calibrate;
mod compare;
mod debug;
mod evidence;
mod exec;
mod explore;
mod kernel;
mod keyboard;
mod predict;
mod recipes;
mod run;
mod senduipi;
mod share;
mod shell;
mod stages;
mod suite;
mod watch;

pub use arguments::{Chip, Inhibit, Pit, interrupts};

use lab::host::booted::Store;
use stages::INTERRUPT;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Run a workload in virtual machines with AVIC or APICv off and on, and compare
    Run(Box<run::Arguments>),
    /// List the questions that lab run --recipe answers, or explain one
    Recipes(recipes::Arguments),
    /// Compare two results of lab run: kernel with kernel, before a patch and after it
    Compare(compare::Arguments),
    /// The cost profile of a real host, from what bench calibrate measured there
    Calibrate(Box<calibrate::Arguments>),
    /// What workloads would measure on a host with the feature off and on, from its cost profile
    Predict(Box<predict::Arguments>),
    /// Published figures, and what the lab gives for them
    Evidence(evidence::Arguments),
    /// Run a command on the emulated host: a verb of avicenna, or a program of this machine
    Exec(Box<exec::Arguments>),
    /// User interrupts natively and in a guest: what SENDUIPI takes, and which of it exits
    Senduipi,
    /// Search for faults of a hypervisor in interrupt virtualization, and repeat what was found
    Explore(Box<explore::Arguments>),
    /// Run the programs of a folder or Linux's selftests of KVM on emulated hosts, and judge them
    Suite(Box<suite::Arguments>),
    /// One interrupt step by step: what silicon and KVM do, and what it changes
    Watch(Box<watch::Arguments>),
    /// An interactive emulated host with avicenna inside
    Shell(Box<shell::Arguments>),
    /// Remove the snapshots of booted hosts that earlier runs kept
    Clear,
}

/// `verbs` are those of this program.
pub fn run(arguments: Arguments, verbs: &[&str]) -> anyhow::Result<ExitCode> {
    let _ = ctrlc::set_handler(|| INTERRUPT.store(true, Ordering::Relaxed));
    match arguments.action {
        Action::Run(arguments) => run::run(&arguments),
        Action::Recipes(arguments) => recipes::run(&arguments),
        Action::Compare(arguments) => compare::run(&arguments),
        Action::Calibrate(arguments) => calibrate::run(&arguments),
        Action::Predict(arguments) => predict::run(&arguments),
        Action::Evidence(arguments) => evidence::run(&arguments, &INTERRUPT),
        Action::Exec(arguments) => exec::run(&arguments, verbs),
        Action::Senduipi => senduipi::run(),
        Action::Explore(arguments) => explore::run(&arguments),
        Action::Suite(arguments) => suite::run(&arguments),
        Action::Watch(arguments) => watch::run(&arguments),
        Action::Shell(arguments) => shell::run(&arguments),
        Action::Clear => {
            let removed = Store::open()?.clear()?;
            say!("{removed} snapshots removed");
            Ok(ExitCode::SUCCESS)
        }
    }
}

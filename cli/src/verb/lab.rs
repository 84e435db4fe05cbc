//! `avicenna lab`: a host that is emulated, with the feature off and on.

mod arguments;
mod compare;
mod evidence;
mod exec;
mod explore;
mod keyboard;
mod recipes;
mod run;
mod shell;
mod stages;
mod suite;

pub use arguments::{Chip, Inhibit, Pit, interrupts};

use crate::status::{Status, Usage};
use arguments::HostArguments;
use lab::host::Host;
use lab::host::booted::Store;
use lab::host::distribution::{DISTRIBUTIONS, USUAL};
use lab::host::kernel::{Kernel, Needs};
use lab::plan::vendor;
use lab::watch::{Halt, Watch};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPT: AtomicBool = AtomicBool::new(false);

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
    /// Published figures, and what the lab gives for them
    Evidence(evidence::Arguments),
    /// Run a command on the emulated host: a verb of avicenna, or a program of this machine
    Exec(Box<exec::Arguments>),
    /// Search for faults of a hypervisor in interrupt virtualization, and repeat what was found
    Explore(Box<explore::Arguments>),
    /// Run the programs of a folder, Linux's selftests of KVM or kvm-unit-tests on emulated hosts,
    /// and judge them
    Suite(Box<suite::Arguments>),
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
        Action::Evidence(arguments) => evidence::run(&arguments, &INTERRUPT),
        Action::Exec(arguments) => exec::run(&arguments, verbs),
        Action::Explore(arguments) => explore::run(&arguments),
        Action::Suite(arguments) => suite::run(&arguments),
        Action::Shell(arguments) => shell::run(&arguments),
        Action::Clear => {
            let removed = Store::open()?.clear()?;
            say!("{removed} snapshots removed");
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The kernel of the host, or the reason why the built-in hypervisor takes its place: only where no
/// kernel was named, since one that is named is wanted.
enum Found {
    Kernel(Box<Kernel>),
    BuiltIn { instead: Option<String> },
}

fn kernel(
    arguments: &HostArguments,
    host: &Host,
    modules: &[&str],
    watch: &mut Watch<'_>,
) -> anyhow::Result<Found> {
    let name = arguments.kernel.as_deref();
    if name == Some("builtin") {
        return Ok(Found::BuiltIn { instead: None });
    }
    let of_wires: &[&str] = if host.wires.is_empty() { &[] } else { &["ixgbevf"] };
    let has_functions = host.has_pulse || !host.wires.is_empty();
    let to_give: &[&str] =
        if has_functions && host.iommu.is_some() { &lab::workload::device::MODULES } else { &[] };
    let modules = &[modules, of_wires, to_give].concat();
    let needs = Needs { vendor: vendor(&host.model), modules };
    match Kernel::find(name.unwrap_or(USUAL), needs, watch) {
        Ok(mut kernel) => {
            for module in &arguments.modules {
                kernel.replace_module(module).map_err(Usage::of)?;
            }
            Ok(Found::Kernel(Box::new(kernel)))
        }
        Err(error) if error.downcast_ref::<Halt>().is_some() => Err(error),
        Err(error) => match name {
            None => Ok(Found::BuiltIn {
                instead: Some(format!(
                    "the built-in hypervisor ran, not KVM: the kernel of {USUAL} could not be had \
                     ({error:#})"
                )),
            }),
            // What could not be fetched was named well.
            Some(name) if DISTRIBUTIONS.iter().any(|one| one.name == name) => Err(error),
            Some(_) => Err(Usage::of(error)),
        },
    }
}

/// A kernel, where nothing else will do.
fn real_kernel(
    arguments: &HostArguments,
    host: &Host,
    watch: &mut Watch<'_>,
) -> anyhow::Result<Kernel> {
    // The function for measuring is there to be given to a process.
    let is_given = host.has_pulse || !host.devices.is_empty();
    let modules: &[&str] = if is_given { &lab::workload::device::MODULES } else { &[] };
    match kernel(arguments, host, modules, watch)? {
        Found::Kernel(kernel) => Ok(*kernel),
        Found::BuiltIn { instead: Some(why) } => Err(anyhow::anyhow!(why)),
        Found::BuiltIn { instead: None } => Err(Usage::of(anyhow::anyhow!(
            "--kernel builtin: the built-in hypervisor has no programs; a distribution's kernel is needed"
        ))),
    }
}

/// The exit status of a command on the emulated host.
fn status_of(status: i32) -> ExitCode {
    ExitCode::from(u8::try_from(status).unwrap_or(Status::CannotTell.code()))
}

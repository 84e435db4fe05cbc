//! `avicenna experiment`: did it help? Something is switched, work runs, figures are compared.

mod answered;
mod chosen;
mod host;
mod known;
mod lab;
mod list;
mod place;
mod program;
mod progress;
mod ready;
mod run;
mod show;
mod stored;

pub use program::is_program;

use place::INTERRUPT;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// The plans that come with the program: what each shows, what it needs
    List(list::Arguments),
    /// A plan: what it does, and its file as a start for your own
    Show(show::Arguments),
    /// Whether a plan would run here, and whether its switch would take effect; changes nothing
    Check(run::CheckArguments),
    /// Run a plan: its trials in random order, the answer, and a page in a folder
    Run(Box<run::Arguments>),
    /// How far an experiment is
    Status(stored::Folder),
    /// Continue an experiment that was stopped
    Resume(stored::ResumeArguments),
    /// Restore what a stopped experiment has changed on the host
    Restore(stored::RestoreArguments),
    /// The answer of an experiment, or of all shards of one
    Report(stored::ReportArguments),
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let _ = ctrlc::set_handler(|| INTERRUPT.store(true, Ordering::Relaxed));
    match arguments.action {
        Action::List(arguments) => list::run(&arguments),
        Action::Show(arguments) => show::run(&arguments),
        Action::Check(arguments) => run::check(&arguments),
        Action::Run(arguments) => run::run(&arguments),
        Action::Status(arguments) => stored::status(&arguments),
        Action::Resume(arguments) => stored::resume(&arguments),
        Action::Restore(arguments) => stored::restore(&arguments),
        Action::Report(arguments) => stored::report(&arguments),
    }
}

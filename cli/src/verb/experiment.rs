//! `avicenna experiment`: did it help? Something is switched, work runs, figures are compared.

mod host;
mod known;
mod lab;
mod list;
mod progress;
mod run;
mod show;
mod stored;

use crate::status::{Status, Usage};
use crate::terminal;
use ::experiment::answer::Answer;
use ::experiment::page;
use ::experiment::place::Place;
use ::experiment::plan::Plan;
use ::experiment::shipped;
use ::experiment::statistics::Verdict;
use anyhow::{Context, anyhow};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPT: AtomicBool = AtomicBool::new(false);

/// A plan that is longer is none.
const MOST_PLAN: u64 = 1 << 20;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// The plans that come with the program: what each shows, what it needs
    List(list::Arguments),
    /// A plan: what it does, and its file to begin one's own from
    Show(show::Arguments),
    /// Whether a plan would run here, and whether its switch would take effect; changes nothing
    Check(run::CheckArguments),
    /// Run a plan: its trials in random order, the answer, and a page in a folder
    Run(Box<run::Arguments>),
    /// How far an experiment is
    Status(stored::Folder),
    /// Go on with an experiment that was stopped, by whatever
    Resume(stored::ResumeArguments),
    /// Put back what an experiment that was stopped has changed on the host
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

/// Where trials are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum On {
    /// Emulated machines
    Lab,
    /// This machine
    Host,
}

/// How the answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    /// For a ticket
    Markdown,
    /// docs/schema/experiment-1.json
    Json,
    /// A page that needs nothing but itself
    Html,
}

/// What others published is put beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Compare {
    /// Figures of the document that the plan follows
    Published,
}

/// A shipped plan by its name, or a plan's file.
fn plan(name: &str) -> anyhow::Result<Plan> {
    let path = Path::new(name);
    if let Some(plan) = shipped::named(name).filter(|_| !path.exists()) {
        return plan.map_err(Usage::of);
    }
    if !path.exists() && !name.contains(['/', '.']) {
        let known: Vec<&str> = shipped::PLANS.iter().map(|(name, _)| *name).collect();
        return Err(Usage::of(anyhow!(
            "{name:?} is neither a file nor a plan that comes with the program: {}",
            known.join(", ")
        )));
    }
    let facts = std::fs::metadata(path).with_context(|| format!("cannot read {name}"));
    let size = facts.map_err(Usage::of)?.len();
    if size > MOST_PLAN {
        return Err(Usage::of(anyhow!(
            "{name}: {size} bytes are no plan's, which has 1 MiB at most"
        )));
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"));
    Plan::read(&text.map_err(Usage::of)?, name).map_err(Usage::of)
}

/// Whether a program of this name can be started here.
fn is_program(name: &str) -> bool {
    if name.contains('/') {
        return Path::new(name).is_file();
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(name).is_file())
}

/// The lab or this host; `options` say which virtual machine and how it is reached.
fn place(on: On, options: &host::Options) -> anyhow::Result<Box<dyn Place>> {
    Ok(match on {
        On::Lab => Box::new(lab::Lab::new(&INTERRUPT)),
        On::Host => Box::new(host::Host::new(options, &INTERRUPT)?),
    })
}

/// The answer in a form.
fn shown(answer: &Answer, format: Format, compare: bool, columns: usize) -> anyhow::Result<String> {
    Ok(match format {
        Format::Text => page::text(answer, columns, compare),
        Format::Markdown => page::markdown(answer, compare),
        Format::Json => answer.to_json()?,
        Format::Html => page::html(answer),
    })
}

/// Prints the answer, or writes it to a file.
fn print(
    answer: &Answer,
    format: Format,
    compare: bool,
    output: Option<&PathBuf>,
) -> anyhow::Result<()> {
    match output {
        None => {
            let text = shown(answer, format, compare, terminal::columns())?;
            match format {
                Format::Text => terminal::print(&text),
                _ => terminal::program(text.as_bytes()),
            };
        }
        Some(path) => {
            let text = shown(answer, format, compare, terminal::COLUMNS)?;
            change::Output::write(path, text.as_bytes(), change::Like::Umask)?;
        }
    }
    Ok(())
}

/// 0 if better, no different or shown; 1 if worse or never in effect; 3 if undecided.
fn status_of(answer: &Answer) -> ExitCode {
    let verdicts =
        || answer.cells.iter().flat_map(|cell| &cell.metrics).filter_map(|one| one.verdict);
    let has_void = answer.cells.iter().any(|cell| cell.void.is_some());
    let status = if has_void || verdicts().any(|one| one == Verdict::Worse) {
        Status::Findings
    } else if !answer.is_decided() {
        Status::CannotTell
    } else {
        Status::Clean
    };
    status.into()
}

//! Experiments that have a journal: `status`, `resume`, `restore`, `report`.

use super::answered::{print, status_of};
use super::chosen::{Compare, Format, On};
use super::host;
use super::place::place;
use super::run::{Run, clock};
use crate::status::Usage;
use crate::terminal;
use ::experiment::journal::{self, Entry, Head, Journal, Written};
use ::experiment::plan::Plan;
use ::experiment::run::Experiment;
use anyhow::anyhow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Folder {
    /// The experiment's folder
    folder: PathBuf,
}

#[derive(clap::Args)]
pub struct ResumeArguments {
    #[command(flatten)]
    folder: Folder,
    /// Trials at once; on a host it is one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=512))]
    jobs: u16,
    /// Change what the plan changes on this host, or run its command here
    #[arg(long)]
    yes: bool,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Show published figures beside
    #[arg(long, value_enum)]
    compare: Option<Compare>,
}

#[derive(clap::Args)]
pub struct RestoreArguments {
    #[command(flatten)]
    folder: Folder,
    /// Change the host
    #[arg(long)]
    yes: bool,
}

#[derive(clap::Args)]
pub struct ReportArguments {
    /// The experiment's folder, or those of all its shards
    #[arg(required = true)]
    folders: Vec<PathBuf>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Show published figures beside
    #[arg(long, value_enum)]
    compare: Option<Compare>,
    /// Write there instead of to standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The first line of a journal, and its plan.
fn begun(written: &[Written], folder: &Path) -> anyhow::Result<(Head, Plan)> {
    let Some(Entry::Begun(head)) = written.first().map(|line| &line.entry) else {
        return Err(anyhow!("{}: the journal does not begin with a plan", folder.display()));
    };
    if head.schema != journal::SCHEMA {
        return Err(anyhow!(
            "{}: a journal of form {}, this program reads {}",
            folder.display(),
            head.schema,
            journal::SCHEMA
        ));
    }
    let plan = Plan::read(&head.plan, &format!("{}, the journal's plan", folder.display()))?;
    Ok(((**head).clone(), plan))
}

pub fn status(arguments: &Folder) -> anyhow::Result<ExitCode> {
    let folder = &arguments.folder;
    let written = journal::read(folder).map_err(Usage::of)?;
    let (head, plan) = begun(&written, folder)?;
    let experiment = Experiment::new(&plan, head, &written);
    let answer = experiment.answer();
    let state = &experiment.state;
    let stopped = written.iter().rev().find_map(|line| match &line.entry {
        Entry::Stopped { why } => Some(why.clone()),
        _ => None,
    });
    let words = if state.is_finished {
        "finished".to_owned()
    } else if let Some(why) = stopped.filter(|_| ends_stopped(&written)) {
        format!("stopped: {why}; resume goes on")
    } else if state.interrupted > 0 {
        format!("{} trials have begun and not ended: it runs, or it was cut off", state.interrupted)
    } else {
        "not finished; resume goes on".to_owned()
    };
    let mut text = format!(
        "{}: {words}\n{} of {} trials ended, {} void, {} of {} blocks whole\n",
        plan.name,
        answer.trials.len(),
        experiment.schedule.trials.len(),
        answer.trials.iter().filter(|trial| trial.void.is_some()).count(),
        answer.blocks,
        answer.blocks_planned
    );
    for change in &state.changes {
        text += &format!("changed and not put back: {}\n", change.what);
    }
    text += &report::grid::folded(&answer.sentence, terminal::columns(), 2);
    terminal::print(&text);
    Ok(ExitCode::SUCCESS)
}

fn ends_stopped(written: &[Written]) -> bool {
    matches!(written.last().map(|line| &line.entry), Some(Entry::Stopped { .. }))
}

fn on(head: &Head) -> On {
    if head.place == "lab" { On::Lab } else { On::Host }
}

pub fn resume(arguments: &ResumeArguments) -> anyhow::Result<ExitCode> {
    let folder = &arguments.folder.folder;
    let (mut journal, written) = Journal::open(folder, clock).map_err(Usage::of)?;
    let (head, plan) = begun(&written, folder)?;
    if head.version != env!("CARGO_PKG_VERSION") {
        let this = env!("CARGO_PKG_VERSION");
        terminal::remark(&format!(
            "the experiment was begun by version {}, this is {this}",
            head.version
        ));
    }
    let on = on(&head);
    if on == On::Host && !arguments.yes {
        return Err(Usage::of(anyhow!("resume changes this host: pass --yes")));
    }
    if plan.command(on == On::Lab).is_some() && !arguments.yes {
        let what = "resume runs the plan's command on this machine: pass --yes";
        return Err(Usage::of(anyhow!("{what} (avicenna experiment show prints a plan)")));
    }
    let place = place(on, &host::Options::from_map(&head.options))?;
    let mut experiment = Experiment::new(&plan, head, &written);
    let put_back = experiment.restore(&*place, &mut journal)?;
    if put_back > 0 {
        terminal::remark(&format!("{put_back} changes of the part before were put back"));
    }
    let jobs = if on == On::Host { 1 } else { usize::from(arguments.jobs) };
    let run = Run { folder, jobs, lines: false };
    let answer = run.to_end(experiment, &*place, journal)?;
    print(&answer, arguments.format, arguments.compare.is_some(), None)?;
    Ok(status_of(&answer))
}

pub fn restore(arguments: &RestoreArguments) -> anyhow::Result<ExitCode> {
    let folder = &arguments.folder.folder;
    let (mut journal, written) = Journal::open(folder, clock).map_err(Usage::of)?;
    let (head, plan) = begun(&written, folder)?;
    let on = on(&head);
    let options = host::Options::from_map(&head.options);
    let mut experiment = Experiment::new(&plan, head, &written);
    for change in experiment.state.changes.iter().rev() {
        terminal::print(&format!("put back: {}\n", change.what));
    }
    if experiment.state.changes.is_empty() {
        terminal::print("there is nothing to put back\n");
        return Ok(ExitCode::SUCCESS);
    }
    if !arguments.yes {
        terminal::print("nothing was changed; --yes does it\n");
        return Ok(ExitCode::SUCCESS);
    }
    let place = place(on, &options)?;
    experiment.restore(&*place, &mut journal)?;
    Ok(ExitCode::SUCCESS)
}

/// Shards of one experiment are put together: each trial is in one of them.
pub fn report(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    let mut all: Option<(Head, Plan)> = None;
    let mut lines: Vec<Written> = Vec::new();
    let (mut shares, mut finished) = (Vec::new(), 0);
    for folder in &arguments.folders {
        let written = journal::read(folder).map_err(Usage::of)?;
        let (head, plan) = begun(&written, folder)?;
        shares.push(head.shard);
        finished += usize::from(written.iter().any(|line| line.entry == Entry::Finished));
        let whole = Head { shard: None, remarks: head.remarks.clone(), ..head };
        match &all {
            Some((first, _)) if !is_same(first, &whole) => {
                return Err(Usage::of(anyhow!(
                    "{} is of another experiment than {}: shards have the same plan, seed and blocks",
                    folder.display(),
                    arguments.folders[0].display()
                )));
            }
            Some(_) => {}
            None => all = Some((whole, plan)),
        }
        lines.extend(written.into_iter().filter(|line| line.entry != Entry::Finished));
    }
    let Some((head, plan)) = all else { return Err(Usage::of(anyhow!("no folder"))) };
    let mut experiment = Experiment::new(&plan, head, &lines);
    experiment.state.is_finished = finished == arguments.folders.len() && is_all(&shares);
    let answer = experiment.answer();
    print(&answer, arguments.format, arguments.compare.is_some(), arguments.output.as_ref())?;
    Ok(status_of(&answer))
}

fn is_same(one: &Head, other: &Head) -> bool {
    let key = |head: &Head| {
        (head.hash.clone(), head.seed, head.blocks, head.same.clone(), head.place.clone())
    };
    key(one) == key(other)
}

/// Whether nothing is missing: one experiment that was not parted, or each share of it.
fn is_all(shares: &[Option<(usize, usize)>]) -> bool {
    match shares {
        [None] => true,
        shares => {
            let Some(Some((_, all))) = shares.first() else { return false };
            (0..*all).all(|own| shares.contains(&Some((own, *all))))
        }
    }
}

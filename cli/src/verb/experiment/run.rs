//! `avicenna experiment check` and `run`.

use super::answered::{print, shown, status_of};
use super::chosen::{Compare, Format, On, plan};
use super::host;
use super::place::{INTERRUPT, place};
use super::progress::Show;
use crate::status::{Status, Usage};
use crate::terminal;
use ::experiment::answer::Answer;
use ::experiment::journal::{Head, Journal, SCHEMA};
use ::experiment::place::{Place, Remark, Weight};
use ::experiment::plan::Plan;
use ::experiment::run::{Error, Experiment, Told};
use ::experiment::schedule::{Choice, Schedule};
use anyhow::anyhow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(clap::Args)]
pub struct CheckArguments {
    /// A plan's name or file
    plan: String,
    /// Where it would run
    #[arg(long, value_enum, default_value_t = On::Lab)]
    on: On,
    #[command(flatten)]
    host: host::Options,
}

#[derive(clap::Args)]
pub struct Arguments {
    /// A plan's name or file
    plan: String,
    /// Where to run it
    #[arg(long, value_enum, default_value_t = On::Lab)]
    on: On,
    #[command(flatten)]
    host: host::Options,
    /// Change what the plan changes on this host, or run its command here; without it, what would
    /// be done is printed
    #[arg(long)]
    yes: bool,
    /// Trials at once; on a host it is one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=512))]
    jobs: u16,
    /// Run share I of N alone, counted from 1; report puts shares together
    #[arg(long, value_name = "I/N", value_parser = shard)]
    shard: Option<(usize, usize)>,
    /// Run two equal arms (of this level, or the first): what this place can see at all
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, default_missing_value = "")]
    aa: Option<String>,
    /// Seed of the random order, instead of the plan's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Number of blocks, instead of the plan's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    blocks: Option<u32>,
    /// The folder for the journal, the answer and the page [default: experiment-PLAN]
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Print each line of the journal on standard output as it is written, as JSON Lines, instead
    /// of the answer
    #[arg(long)]
    lines: bool,
    /// Show published figures beside
    #[arg(long, value_enum)]
    compare: Option<Compare>,
}

/// `2/8` is the second of eight; numbers from 0 on inside.
fn shard(text: &str) -> Result<(usize, usize), String> {
    let (own, all) = text.split_once('/').ok_or("must be I/N, such as 1/8")?;
    match (own.parse::<usize>(), all.parse::<usize>()) {
        (Ok(own), Ok(all)) if (1..=all).contains(&own) && all <= 100_000 => Ok((own - 1, all)),
        _ => Err(format!("{text}: must be I/N with I from 1 to N, such as 1/8")),
    }
}

/// Seconds since 1970.
pub fn clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

pub fn check(arguments: &CheckArguments) -> anyhow::Result<ExitCode> {
    let plan = plan(&arguments.plan)?;
    let place = place(arguments.on, &arguments.host)?;
    let remarks = place.check(&plan);
    for remark in &remarks {
        terminal::print(&report::grid::folded(&remark.to_string(), terminal::columns(), 2));
    }
    let worst = remarks.iter().map(|remark| remark.weight).max();
    terminal::print(&match worst {
        Some(Weight::Blocks) => format!("{} would not run here\n", plan.name),
        Some(Weight::Futile) => {
            format!("{} would run here, and an arm of it would be void\n", plan.name)
        }
        _ => format!("{} would run here: {}\n", plan.name, amount(&plan, &*place)),
    });
    let status = match worst {
        Some(Weight::Blocks | Weight::Futile) => Status::Findings,
        _ => Status::Clean,
    };
    Ok(status.into())
}

fn amount(plan: &Plan, place: &dyn Place) -> String {
    let schedule = Schedule::new(plan, &Choice::default(), place.is_lab());
    format!(
        "{} trials in {} blocks, {} cells of two arms",
        schedule.trials.len(),
        schedule.blocks,
        schedule.cells.len()
    )
}

pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let plan = plan(&arguments.plan)?;
    let same = same(arguments, &plan)?;
    enough(arguments, &plan)?;
    let place = place(arguments.on, &arguments.host)?;
    let remarks = place.check(&plan);
    for remark in &remarks {
        terminal::remark(&report::grid::folded(&remark.to_string(), terminal::COLUMNS, 2));
    }
    if let Some(blocked) = remarks.iter().find(|remark| remark.weight == Weight::Blocks) {
        return Err(anyhow!("{}: {}", plan.name, blocked.cause));
    }
    if arguments.on == On::Host && !arguments.yes {
        terminal::print(&format!(
            "{} would be run on this host: {}, changed {}; nothing was changed, --yes runs it\n",
            plan.name,
            amount(&plan, &*place),
            plan.compared().redo.words()
        ));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(command) = plan.command(place.is_lab()).filter(|_| !arguments.yes) {
        terminal::print(&format!(
            "{} would run a command on this machine: {}; nothing was run, --yes does it\n\n{}\n",
            plan.name,
            amount(&plan, &*place),
            command.trim()
        ));
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.shard.is_some() && plan.design.looks.len() > 1 {
        return Err(Usage::of(anyhow!(
            "--shard: {} stops early by what all its trials say, which a share does not know: \
             leave looks out of the plan",
            plan.name
        )));
    }
    let folder = folder(arguments, &plan);
    let head = head(arguments, &plan, &*place, same, remarks);
    let journal = Journal::create(&folder, head.clone(), clock).map_err(Usage::of)?;
    let experiment = Experiment::new(&plan, head, &[]);
    let jobs = if arguments.on == On::Host { 1 } else { usize::from(arguments.jobs) };
    let run = Run { folder: &folder, jobs, lines: arguments.lines };
    let answer = run.to_end(experiment, &*place, journal)?;
    if !arguments.lines {
        print(&answer, arguments.format, arguments.compare.is_some(), None)?;
        terminal::remark(&format!(
            "avicenna: {} has the page",
            folder.join("index.html").display()
        ));
    }
    Ok(status_of(&answer))
}

/// Refuses so few blocks that nothing could be decided. In the lab counts are exact and decide all
/// the same; of times that vary it is said.
fn enough(arguments: &Arguments, plan: &Plan) -> anyhow::Result<()> {
    let is_lab = arguments.on == On::Lab;
    let choice = Choice { blocks: arguments.blocks.map(|one| one as usize), ..Choice::default() };
    let blocks = Schedule::new(plan, &choice, is_lab).blocks;
    let least = plan.least_blocks(is_lab, blocks);
    if blocks >= least {
        return Ok(());
    }
    let what = format!(
        "{blocks} blocks cannot decide {} metrics and cells at level {}",
        plan.questions(is_lab),
        plan.design.level
    );
    if is_lab {
        let text = format!(
            "note: {what} where values vary between trials: such changes stay estimates, at least \
             {least} blocks could decide; counts that do not overlap are exact"
        );
        terminal::remark(&report::grid::folded(&text, terminal::COLUMNS, 2));
        return Ok(());
    }
    Err(Usage::of(anyhow!("{}: {what}: at least {least} could", plan.name)))
}

/// The level of both arms, if they are to be the same.
fn same(arguments: &Arguments, plan: &Plan) -> anyhow::Result<Option<String>> {
    let levels = plan.levels(plan.compared(), arguments.on == On::Lab);
    match &arguments.aa {
        None => Ok(None),
        Some(level) if level.is_empty() => Ok(levels.first().cloned()),
        Some(level) if levels.contains(level) => Ok(Some(level.clone())),
        Some(level) => Err(Usage::of(anyhow!(
            "--aa {level}: {} has the levels {}",
            plan.design.compare,
            levels.join(", ")
        ))),
    }
}

fn folder(arguments: &Arguments, plan: &Plan) -> PathBuf {
    let share =
        arguments.shard.map_or(String::new(), |(own, all)| format!("-{}-of-{all}", own + 1));
    let usual = || PathBuf::from(format!("experiment-{}{share}", plan.name));
    arguments.output.clone().unwrap_or_else(usual)
}

fn head(
    arguments: &Arguments,
    plan: &Plan,
    place: &dyn Place,
    same: Option<String>,
    remarks: Vec<Remark>,
) -> Head {
    Head {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").into(),
        plan: plan.text.clone(),
        hash: plan.hash(),
        place: place.name().into(),
        same,
        seed: arguments.seed,
        blocks: arguments.blocks.map(|blocks| blocks as usize),
        shard: arguments.shard,
        options: arguments.host.to_map(),
        provenance: place.provenance(plan),
        remarks,
    }
}

/// An experiment that is run to its end, from its beginning or from where it was stopped.
pub struct Run<'a> {
    pub folder: &'a Path,
    pub jobs: usize,
    pub lines: bool,
}

impl Run<'_> {
    pub fn to_end(
        &self,
        mut experiment: Experiment<'_>,
        place: &dyn Place,
        mut journal: Journal,
    ) -> anyhow::Result<Answer> {
        let mut show = Show::new(self.lines);
        let mut tell = |told: Told<'_>| show.tell(told);
        let ended = experiment.run(place, &mut journal, self.jobs, &INTERRUPT, &mut tell);
        drop(show);
        let answer = experiment.answer();
        write(self.folder, &answer)?;
        match ended {
            Ok(()) => Ok(answer),
            Err(Error::Interrupted) => {
                terminal::remark(&format!(
                    "avicenna: stopped; avicenna experiment resume {} goes on",
                    self.folder.display()
                ));
                Err(::lab::watch::Halt::Interrupted.into())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The answer as JSON and as a page, beside the journal.
fn write(folder: &Path, answer: &Answer) -> anyhow::Result<()> {
    for (name, format) in [("answer.json", Format::Json), ("index.html", Format::Html)] {
        let path = folder.join(name);
        let text = shown(answer, format, true, terminal::COLUMNS)?;
        change::Output::write(&path, text.as_bytes(), change::Like::Umask)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_one_of_so_many() {
        assert_eq!(shard("1/8"), Ok((0, 8)));
        assert_eq!(shard("8/8"), Ok((7, 8)));
        for text in ["0/8", "9/8", "1", "a/b", "1/0", "-1/2"] {
            assert!(shard(text).is_err(), "{text}");
        }
    }
}

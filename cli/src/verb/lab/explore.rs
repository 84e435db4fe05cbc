//! `avicenna lab explore`: a search for faults, and findings repeated.

mod bisect;
mod contest;
mod options;
mod rows;
mod step;
mod swarm;

use self::options::{Format, Options, words};
use self::rows::Rows;
use super::debug;
use super::stages::{INTERRUPT, Stages};
use crate::sandbox::Sandbox;
use crate::status::{Status, Usage};
use crate::terminal;
use anyhow::Context;
use arch::time::Picoseconds;
use board::perturb::Hold;
use change::{Like, Output};
use lab::drive::recording::{Recording, symbols_of};
use lab::drive::session::Visitor;
use lab::explore::window::Seen;
use lab::explore::{Finding, Forms, Report, Search, Stage, minimise, reproducer, search};
use lab::watch::{Told, Watch};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use trace::symbol::Symbols;

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    options: Options,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Repeat a finding, bit by bit
    Replay(ToReplay),
    /// Reduce a finding to the decisions that it needs
    Minimise(OfFinding),
    /// Write it as a C program for /dev/kvm and a kernel module that widens the window, to be tried
    /// on a real machine
    Reproducer(ToReproduce),
    /// Name the kernels between which a finding comes or goes
    Bisect(bisect::Arguments),
    /// Measure the strategies against each other on a host that has a fault
    Contest(Box<contest::Arguments>),
}

#[derive(clap::Args)]
struct OfFinding {
    /// As lab explore wrote it
    #[arg(value_name = "FINDING")]
    file: PathBuf,
}

impl OfFinding {
    fn read(&self) -> anyhow::Result<Finding> {
        Finding::read(&self.file).map_err(Usage::of)
    }
}

#[derive(clap::Args)]
struct ToReplay {
    #[command(flatten)]
    of: OfFinding,
    /// Write what the machine does in the window to a file, for machine trace, and say when
    /// processors are held; of a vCPU that sleeps, until it enters its guest again
    #[arg(long, value_name = "FILE", conflicts_with = "gdb")]
    trace: Option<PathBuf>,
    /// Begin at the monitor's prompt, which shows the machine's parts and steps through the window:
    /// next goes on until a processor is held up, until to an event, help says what else
    #[arg(long, conflicts_with_all = ["gdb", "trace"])]
    step: bool,
    #[command(flatten)]
    debug: debug::Arguments,
}

#[derive(clap::Args)]
struct ToReproduce {
    #[command(flatten)]
    of: OfFinding,
    /// Folder for the program, its Makefile, and the module where the finding needs a delay in the
    /// kernel
    #[arg(long, short, value_name = "FOLDER", default_value = "reproducer")]
    output: PathBuf,
}

/// How long to search without a limit of another kind.
const USUAL_BUDGET: Duration = Duration::from_secs(300);
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.action {
        None if arguments.options.subject.is_one() => explore(&arguments.options),
        None => swarm::run(&arguments.options),
        Some(Action::Replay(replayed)) => {
            let finding = replayed.of.read()?;
            let mut sandbox = Sandbox::default();
            if replayed.step {
                return repeat(&finding, sandbox, |stage| step_through(&finding, stage));
            }
            if let Some(visitor) = replayed.debug.open(&mut sandbox)? {
                return repeat(&finding, sandbox, |stage| look_on(&finding, stage, visitor));
            }
            let recording = replayed.trace.as_deref().map(|path| recording(path, &mut sandbox));
            let recording = recording.transpose()?;
            repeat(&finding, sandbox, |stage| replay(&finding, stage, recording))
        }
        Some(Action::Minimise(of)) => {
            let finding = of.read()?;
            repeat(&finding, Sandbox::default(), |stage| reduce(&finding, stage))
        }
        Some(Action::Reproducer(arguments)) => reproduce(arguments),
        Some(Action::Bisect(arguments)) => bisect::run(arguments),
        Some(Action::Contest(arguments)) => contest::run(arguments),
    }
}

fn explore(options: &Options) -> anyhow::Result<ExitCode> {
    let mut stages = Stages::open();
    let mut tell = |told: Told<'_>| stages.tell(told);
    let mut watch = Watch::new(&INTERRUPT, Duration::MAX, &mut tell);
    let mix = options.subject.mix()?;
    let mut sandbox = output_to(&options.output)?;
    let mut rows = Rows::open(options.parquet.as_deref(), &mut sandbox)?;
    let stage = options.subject.stage(&mix, &mut watch, sandbox)?;
    watch.stage("exploring");
    let usual = options.windows.is_none().then_some(USUAL_BUDGET);
    let plan = Search {
        budget: options.budget.or(usual),
        windows: options.windows,
        seed: options.subject.seed,
        shard: options.shard,
        jobs: options.jobs.into(),
        words: words(),
        mix,
        told: BTreeSet::new(),
    };
    let report = search(stage, &plan, &mut watch, |finding| {
        keep(finding, &finding.cause(), &options.output)
    })?;
    stages.close();
    rows.take(None, &plan.mix, &report)?;
    rows.finish()?;
    print(&report, options)?;
    Ok(status(&report))
}

fn print(report: &impl Forms, options: &Options) -> anyhow::Result<()> {
    let text = match options.format {
        Format::Text => {
            terminal::print(&report.to_text(terminal::columns()));
            return Ok(());
        }
        Format::Json => report.to_json()?,
        Format::Markdown => report.to_markdown(),
        Format::Junit => report.to_junit(&options.output),
        Format::Sarif => serde_json::to_string_pretty(&report.to_sarif(&options.output))? + "\n",
    };
    terminal::program(text.as_bytes());
    Ok(())
}

/// A folder that findings go to.
fn output_to(folder: &Path) -> anyhow::Result<Sandbox> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let mut sandbox = Sandbox::default();
    sandbox.keeps(folder.to_owned());
    Ok(sandbox)
}

/// In a file that is named by its cause: one that an earlier window shows takes its place.
fn keep(finding: &Finding, name: &str, folder: &Path) -> anyhow::Result<()> {
    write(&folder.join(format!("{name}.json")), &finding.to_json()?)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut output = Output::to(path)?;
    output.write_all(text.as_bytes())?;
    output.finish(Like::Umask)?;
    Ok(())
}

fn reproduce(arguments: &ToReproduce) -> anyhow::Result<ExitCode> {
    let files = reproducer::files(&arguments.of.read()?).map_err(Usage::of)?;
    let folder = &arguments.output;
    output_to(folder)?;
    for (name, text) in &files {
        write(&folder.join(name), text)?;
    }
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    terminal::print(&format!("{}: {}\n", folder.display(), names.join(", ")));
    Ok(Status::Clean.into())
}

fn status(report: &Report) -> ExitCode {
    let is_found = !report.findings.is_empty();
    match &report.end {
        Some(end) if !end.is_fault && !is_found => Status::CannotTell.into(),
        None if !is_found => Status::Clean.into(),
        _ => Status::Findings.into(),
    }
}

/// Does something with a finding at its moment.
fn repeat(
    finding: &Finding,
    sandbox: Sandbox,
    act: impl FnOnce(&mut Stage) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let subject = Options::of_words(&finding.words)?;
    let mut stages = Stages::open();
    let mut tell = |told: Told<'_>| stages.tell(told);
    let mut watch = Watch::new(&INTERRUPT, Duration::MAX, &mut tell);
    let mut stage = subject.stage(&finding.mix, &mut watch, sandbox)?;
    watch.stage("coming to the window");
    finding.set(&mut stage)?;
    stages.close();
    act(&mut stage)
}

/// A trace file, which is to be written behind the sandbox.
fn recording(path: &Path, sandbox: &mut Sandbox) -> anyhow::Result<Recording> {
    sandbox.puts(path);
    sandbox.puts(&symbols_of(path));
    Recording::create(path, &[])
}

fn replay(
    finding: &Finding,
    stage: &mut Stage,
    recording: Option<Recording>,
) -> anyhow::Result<ExitCode> {
    let is_traced = recording.is_some();
    if let Some(mut recording) = recording {
        recording.name_code(stage.symbols.to_text().as_bytes())?;
        recording.take(&finding.records(stage));
        recording.finish()?;
    }
    let repeated = finding.repeat(stage);
    let key = finding.alarm.key();
    let is_raised = repeated.seen.alarm(&key).is_some();
    let same = if repeated.is_same { "the same to the last record" } else { "NOT the same" };
    let raised = if is_raised { "the alarm is raised" } else { "no such alarm" };
    terminal::print(&format!(
        "{}\n{}\nhash {:016x}: {same}; {raised}\n",
        finding.story.join("\n"),
        finding.lanes.join("\n"),
        repeated.seen.hash
    ));
    if is_traced {
        terminal::print(&held(&repeated.seen, &stage.symbols));
    }
    Ok(if repeated.is_same && is_raised { Status::Clean } else { Status::Findings }.into())
}

/// Lets the user look on, at a prompt.
fn step_through(finding: &Finding, stage: &mut Stage) -> anyhow::Result<ExitCode> {
    let symbols = stage.symbols.clone();
    let second = |at: Picoseconds| at.0 as f64 / 1e12;
    let (begins, raised) = (second(finding.begins), second(finding.alarm.at));
    terminal::print(&format!(
        "the window begins at {begins:.9} s, and the alarm is raised at {raised:.9} s\n"
    ));
    look_on(finding, stage, Box::new(step::Steps::new(symbols)))
}

/// Lets a debugger look on, from the window's beginning or an event that it waits for.
fn look_on(
    finding: &Finding,
    stage: &mut Stage,
    mut visitor: Box<dyn Visitor>,
) -> anyhow::Result<ExitCode> {
    terminal::print(&format!("{}\n", finding.story.join("\n")));
    let (text, status) = match finding.debug(stage, &mut *visitor)? {
        Some(true) => ("the same to the last record", Status::Clean),
        Some(false) => ("NOT the same", Status::Findings),
        None => ("it went on beyond the window's end, where nothing is compared", Status::Clean),
    };
    terminal::print(&format!("{text}\n"));
    Ok(status.into())
}

/// When processors are held: no event of the trace is that.
fn held(seen: &Seen, symbols: &Symbols) -> String {
    seen.holds.iter().map(|hold| hold_line(hold, symbols)).collect()
}

fn hold_line(hold: &Hold, symbols: &Symbols) -> String {
    let place = symbols.name(hold.rip).map_or(String::new(), |name| format!(" (in {name})"));
    format!("{:.3} us: {}{place}\n", hold.at.0 as f64 / 1e6, hold.decision)
}

fn reduce(finding: &Finding, stage: &mut Stage) -> anyhow::Result<ExitCode> {
    let (kept, _, windows) = minimise(stage, &finding.alarm.key(), &finding.decisions);
    let each: String = kept.iter().map(|one| format!("{one}\n")).collect();
    terminal::print(&format!("{} decisions, {windows} windows\n{each}", kept.len()));
    Ok(Status::Clean.into())
}

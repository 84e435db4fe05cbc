//! `avicenna lab explore`: a search for faults, and findings repeated.

use super::arguments::HostArguments;
use super::kernel::real_kernel;
use super::stages::{INTERRUPT, Stages};
use crate::sandbox::Sandbox;
use crate::status::{Status, Usage};
use crate::terminal;
use anyhow::Context;
use change::{Like, Output};
use clap::{Args, FromArgMatches};
use lab::explore::{Finding, Mix, Report, Search, Stage, Subject, minimise, search};
use lab::ground::Ground;
use lab::watch::{Told, Watch};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

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
    Replay(OfFinding),
    /// Reduce a finding to the decisions that it needs
    Minimise(OfFinding),
}

#[derive(clap::Args)]
struct OfFinding {
    /// As lab explore wrote it
    #[arg(value_name = "FINDING")]
    file: PathBuf,
}

#[derive(clap::Args)]
struct Options {
    #[command(flatten)]
    host: HostArguments,
    /// Mode of the guest's APICs
    #[arg(long, value_name = "MODE", default_value = "x2apic", value_parser = ["xapic", "x2apic"])]
    apic: String,
    /// vCPUs of the guest, each on a processor of its own
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=64))]
    guest_cpus: u16,
    /// How long to search, in this machine's time: 30s, 5min, 2h [default: 5min, or with --windows
    /// no limit]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    budget: Option<Duration>,
    /// Windows of the whole search: unlike time, so many give the same on every machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    windows: Option<u64>,
    /// Emulated hosts at once, a thread and the host's memory each; what is found is the same
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Where all numbers of the search come from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// One of N parts of the same search: I/N, from 0
    #[arg(long, value_name = "I/N", default_value = "0/1", value_parser = parse_shard)]
    shard: (u64, u64),
    /// Folder for findings, a file each
    #[arg(long, short, value_name = "FOLDER", default_value = "findings")]
    output: PathBuf,
    /// How to print what came of it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    Markdown,
    Junit,
    Sarif,
}

/// How long to search without a limit of another kind.
const USUAL_BUDGET: Duration = Duration::from_secs(300);
/// Options that say how long and in how many parts to search, and where results go, not which host
/// it is.
const OF_THE_SEARCH: [&str; 6] =
    ["--budget", "--windows", "--jobs", "--shard", "--output", "--format"];

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.action {
        None => explore(&arguments.options),
        Some(Action::Replay(of)) => repeat(&of.file, replay),
        Some(Action::Minimise(of)) => repeat(&of.file, reduce),
    }
}

/// The words behind `explore` that say which host and guest it is, for findings.
fn words() -> Vec<String> {
    let own = std::env::args_os().skip_while(|word| word != "explore").skip(1);
    words_of_host(own.map(|word| word.to_string_lossy().into_owned()))
}

fn words_of_host(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words;
    while let Some(word) = words.next() {
        let (name, value) = word.split_once('=').map_or((&*word, None), |(a, b)| (a, Some(b)));
        let is_short = word.starts_with("-o");
        let is_left_out = is_short || OF_THE_SEARCH.contains(&name);
        let is_followed = if is_short { word == "-o" } else { value.is_none() };
        match is_left_out {
            true if is_followed => drop(words.next()),
            true => {}
            false => kept.push(word),
        }
    }
    kept
}

impl Options {
    /// As a finding's words say.
    fn of_words(words: &[String]) -> anyhow::Result<Self> {
        let command = Self::augment_args(clap::Command::new("explore"));
        let all = std::iter::once("explore".to_owned()).chain(words.iter().cloned());
        let matches = command.try_get_matches_from(all);
        let parsed = matches.and_then(|matches| Self::from_arg_matches(&matches));
        parsed.map_err(|error| {
            Usage::of(anyhow::Error::from(error).context("the finding's own options"))
        })
    }

    fn mix(&self) -> Mix {
        Mix { apic: self.apic.clone(), vcpus: self.guest_cpus, seed: self.seed }
    }

    /// The stage that the options say.
    fn stage(&self, watch: &mut Watch<'_>, mut sandbox: Sandbox) -> anyhow::Result<Stage> {
        let host = self.host.host()?;
        if self.guest_cpus > self.host.cpus {
            return Err(Usage::of(anyhow::anyhow!(
                "--guest-cpus {}: each wants a processor of its own, and there are {}",
                self.guest_cpus,
                self.host.cpus
            )));
        }
        let kernel = real_kernel(&self.host, &host, watch)?;
        let store = self.host.store();
        let mix = self.mix();
        let ground = Ground {
            host: &host,
            kernel: &kernel,
            additions: self.host.additions(),
            store: store.as_ref(),
        };
        let subject = Subject { ground, mix: &mix };
        Stage::open(&subject, || self.host.shut_in(&mut sandbox), watch)
    }
}

fn explore(options: &Options) -> anyhow::Result<ExitCode> {
    let mut stages = Stages::open();
    let mut tell = |told: Told<'_>| stages.tell(told);
    let mut watch = Watch::new(&INTERRUPT, Duration::MAX, &mut tell);
    std::fs::create_dir_all(&options.output)
        .with_context(|| format!("cannot make the folder {}", options.output.display()))?;
    let mut sandbox = Sandbox::default();
    sandbox.keeps(options.output.clone());
    let stage = options.stage(&mut watch, sandbox)?;
    watch.stage("exploring");
    let usual = options.windows.is_none().then_some(USUAL_BUDGET);
    let plan = Search {
        budget: options.budget.or(usual),
        windows: options.windows,
        seed: options.seed,
        shard: options.shard,
        jobs: options.jobs.into(),
        words: words(),
        mix: options.mix(),
    };
    let report = search(stage, &plan, &mut watch, |finding| keep(finding, &options.output))?;
    stages.close();
    print(&report, options)?;
    Ok(status(&report))
}

fn print(report: &Report, options: &Options) -> anyhow::Result<()> {
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

/// In a file that is named by its cause: one that an earlier window shows takes its place.
fn keep(finding: &Finding, folder: &Path) -> anyhow::Result<()> {
    let path = folder.join(finding.cause() + ".json");
    let mut output = Output::to(&path)?;
    output.write_all(finding.to_json()?.as_bytes())?;
    output.finish(Like::Umask)?;
    Ok(())
}

fn status(report: &Report) -> ExitCode {
    if report.findings.is_empty() { Status::Clean.into() } else { Status::Findings.into() }
}

/// Does something with a finding at its moment.
fn repeat(
    file: &Path,
    act: fn(&Finding, &mut Stage) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let finding = Finding::read(file).map_err(Usage::of)?;
    let options = Options::of_words(&finding.words)?;
    let mut stages = Stages::open();
    let mut tell = |told: Told<'_>| stages.tell(told);
    let mut watch = Watch::new(&INTERRUPT, Duration::MAX, &mut tell);
    let mut stage = options.stage(&mut watch, Sandbox::default())?;
    watch.stage("coming to the window");
    finding.set(&mut stage)?;
    stages.close();
    act(&finding, &mut stage)
}

fn replay(finding: &Finding, stage: &mut Stage) -> anyhow::Result<ExitCode> {
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
    Ok(if repeated.is_same && is_raised { Status::Clean } else { Status::Findings }.into())
}

fn reduce(finding: &Finding, stage: &mut Stage) -> anyhow::Result<ExitCode> {
    let (kept, _, windows) = minimise(stage, &finding.alarm.key(), &finding.decisions);
    let each: String = kept.iter().map(|one| format!("{one}\n")).collect();
    terminal::print(&format!("{} decisions, {windows} windows\n{each}", kept.len()));
    Ok(Status::Clean.into())
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let wanted = || format!("{text:?} is not a time: 30s, 5min, 2h");
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wanted())?;
    let seconds = match unit {
        "s" => 1,
        "min" | "m" => 60,
        "h" => 3600,
        _ => return Err(wanted()),
    };
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wanted)
}

fn parse_shard(text: &str) -> Result<(u64, u64), String> {
    let wanted = || format!("{text:?} is not a share: I/N with I below N, such as 0/4");
    let (index, count) = text.split_once('/').ok_or_else(wanted)?;
    match (index.parse(), count.parse()) {
        (Ok(index), Ok(count)) if index < count => Ok((index, count)),
        _ => Err(wanted()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_has_the_words_that_say_which_host_it_is_and_no_others() {
        let words = "--cpu zen4 --jobs 2 --windows=9 -o x -oy --kernel debian-12 --format json";
        let kept = words_of_host(words.split(' ').map(str::to_owned));
        assert_eq!(kept.join(" "), "--cpu zen4 --kernel debian-12");
    }

    #[test]
    fn times_and_parts_are_refused_with_what_would_do() {
        for (text, seconds) in [("30s", 30), ("5min", 300), ("2h", 7200)] {
            assert_eq!(parse_time(text), Ok(Duration::from_secs(seconds)));
        }
        for text in ["", "5", "min", "-1s", "1.5h", "99999999999999999999h"] {
            assert!(parse_time(text).is_err_and(|why| why.contains("5min")), "{text}");
        }
        assert_eq!(parse_shard("3/4"), Ok((3, 4)));
        for text in ["", "4/4", "1", "a/b", "0/0"] {
            assert!(parse_shard(text).is_err_and(|why| why.contains("0/4")), "{text}");
        }
    }
}

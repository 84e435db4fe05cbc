//! `avicenna lab explore contest`: strategies against each other.

use super::options::{Subject, parse_time};
use super::{Sandbox, Status, terminal};
use crate::verb::lab::stages::{INTERRUPT, Stages};
use lab::explore::contest::{Contest, contest};
use lab::explore::{Search, Strategy};
use lab::watch::{Told, Watch};
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// What to look for: the name of a cause, or its beginning
    #[arg(long, value_name = "CAUSE", default_value = "asleep")]
    cause: String,
    /// Trials of each strategy, each from a moment and with numbers of its own
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    trials: u64,
    /// Windows of a trial at most [default: 200, or with --cpu-time no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    windows: Option<u64>,
    /// CPU time of a trial at most, the way to its moments included: 30s, 5min
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    cpu_time: Option<Duration>,
    /// Which try
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "plain,random,directed,guided,conflict", value_parser = parse_strategy)]
    strategies: Vec<Strategy>,
    #[command(flatten)]
    subject: Subject,
}

/// Windows of a trial without a limit of another kind.
const USUAL_WINDOWS: u64 = 200;

fn parse_strategy(text: &str) -> Result<Strategy, String> {
    let names = Strategy::ALL.map(Strategy::name).join(", ");
    Strategy::ALL
        .into_iter()
        .find(|strategy| strategy.name() == text)
        .ok_or_else(|| format!("{text:?} is none of the strategies {names}"))
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { cause, trials, windows, cpu_time, strategies, subject } = arguments;
    let mut stages = Stages::open();
    let mut tell = |told: Told<'_>| stages.tell(told);
    let mut watch = Watch::new(&INTERRUPT, Duration::MAX, &mut tell);
    let mix = subject.mix()?;
    let stage = subject.stage(&mix, &mut watch, Sandbox::default())?;
    watch.stage("trying each strategy");
    let windows = windows.or(cpu_time.is_none().then_some(USUAL_WINDOWS));
    let what = Contest {
        cause: cause.clone(),
        trials: *trials,
        strategies: strategies.clone(),
        windows,
        spent: *cpu_time,
    };
    let search = Search {
        budget: *cpu_time,
        windows,
        seed: subject.seed,
        shard: (0, 1),
        jobs: 1,
        words: Vec::new(),
        mix,
        told: BTreeSet::new(),
    };
    let ranking = contest(stage, &what, &search, &mut watch)?;
    stages.close();
    terminal::print(&ranking.to_text(terminal::columns()));
    Ok(Status::Clean.into())
}

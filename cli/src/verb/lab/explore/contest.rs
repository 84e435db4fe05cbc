//! `avicenna lab explore contest`: strategies against each other.

use super::options::Subject;
use super::{Sandbox, Status, terminal};
use crate::verb::lab::stages::{INTERRUPT, Stages};
use lab::explore::Search;
use lab::explore::contest::{Contest, contest};
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
    /// Windows of a trial at most
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    windows: u64,
    #[command(flatten)]
    subject: Subject,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { cause, trials, windows, subject } = arguments;
    let mut stages = Stages::open();
    let mut tell = |told: Told<'_>| stages.tell(told);
    let mut watch = Watch::new(&INTERRUPT, Duration::MAX, &mut tell);
    let mix = subject.mix()?;
    let stage = subject.stage(&mix, &mut watch, Sandbox::default())?;
    watch.stage("trying each strategy");
    let what = Contest { cause: cause.clone(), trials: *trials, windows: *windows };
    let search = Search {
        budget: None,
        windows: Some(*windows),
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

//! `avicenna lab explore` of one configuration after the other, which the seed draws.

use super::options::{Options, words_on};
use super::rows::Rows;
use super::{Status, USUAL_BUDGET, keep, output_to, print};
use crate::terminal;
use crate::verb::lab::kernel::real_kernel;
use crate::verb::lab::stages::{INTERRUPT, Stages};
use lab::explore::swarm::{Batch, Swarm, WINDOWS, draw};
use lab::explore::{Mix, Search, Subject, search};
use lab::ground::Ground;
use lab::watch::{Told, Watch};
use lab::workload::device;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub(super) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut stages = Stages::open();
    let mut tell = |told: Told<'_>| stages.tell(told);
    let mut watch = Watch::new(&INTERRUPT, Duration::MAX, &mut tell);
    let (swarm, lacking) = all(options, &mut watch)?;
    stages.close();
    if let Some(module) = lacking {
        let text = "avicenna: no function interrupted the guests, since the kernel has no";
        terminal::remark(&format!("{text} {module}\n"));
    }
    print(&swarm, options)?;
    let status = match (swarm.is_found(), swarm.is_broken()) {
        (true, _) => Status::Findings,
        (false, true) => Status::CannotTell,
        (false, false) => Status::Clean,
    };
    Ok(status.into())
}

/// The whole search, and the module for want of which no function was given to a guest.
fn all(options: &Options, watch: &mut Watch<'_>) -> anyhow::Result<(Swarm, Option<&'static str>)> {
    let mut sandbox = output_to(&options.output)?;
    let mut rows = Rows::open(options.parquet.as_deref(), &mut sandbox)?;
    let host = options.subject.host_of_swarm()?;
    let kernel = real_kernel(&options.subject.host, &host, watch)?;
    let store = options.subject.host.store();
    let (additions, store) = (options.subject.host.additions(), store.as_ref());
    let is_lacking = |module: &&str| kernel.lacks.iter().any(|one| one == module);
    let lacking = device::MODULES.into_iter().find(is_lacking).filter(|_| host.has_pulse);
    let has_function = host.has_pulse && lacking.is_none();
    let words = words_on(&host);
    let ground = Ground { host: &host, kernel: &kernel, additions, store };
    // What the host boots with depends on polling alone.
    let usual = [false, true].map(|polls| Mix { polls, ..Mix::default() });
    let [silent, polling] = &usual;
    let silent = Subject { ground, mix: silent }.prepare()?;
    let polling = Subject { ground, mix: polling }.prepare()?;
    options.subject.host.shut_in(&mut sandbox);
    let course = Course::of(options);
    let mut swarm = Swarm::new(options.subject.seed);
    let mut told = BTreeSet::new();
    for batch in course.batches() {
        let Some((budget, windows)) = course.part(batch) else { break };
        let mix = draw(options.subject.seed, batch, options.subject.host.cpus(), has_function);
        let prepared = if mix.polls { &polling } else { &silent };
        let stage = prepared.with(&mix).open(watch)?;
        watch.stage(&format!("exploring configuration {}", course.name(batch)));
        let plan = Search {
            budget,
            windows,
            seed: mix.seed,
            shard: (0, 1),
            jobs: options.jobs.into(),
            words: words.clone(),
            mix: mix.clone(),
            told: told.clone(),
        };
        let report = search(stage, &plan, watch, |finding| {
            told.insert(finding.alarm.key());
            keep(finding, &Batch::name(batch, &finding.cause()), &options.output)
        })?;
        rows.take(Some(batch), &mix, &report)?;
        swarm.take(batch, mix, report);
    }
    rows.finish()?;
    Ok((swarm, lacking))
}

/// How the search is divided.
struct Course {
    /// So many batches of equal shares; none where they follow each other until the search is over.
    count: Option<u64>,
    budget: Option<Duration>,
    windows: Option<u64>,
    began: Instant,
    /// Every how manieth batch, and from which on.
    shard: (u64, u64),
}

impl Course {
    fn of(options: &Options) -> Self {
        let usual = options.windows.is_none().then_some(USUAL_BUDGET);
        Self {
            count: options.swarm.map(u64::from),
            budget: options.budget.or(usual),
            windows: options.windows,
            began: Instant::now(),
            shard: options.shard,
        }
    }

    fn batches(&self) -> impl Iterator<Item = u64> + use<> {
        let (first, each) = self.shard;
        (first..self.count.unwrap_or(u64::MAX)).step_by(usize::try_from(each).unwrap_or(1))
    }

    /// The time and the windows of a batch, if the search is not over.
    fn part(&self, batch: u64) -> Option<(Option<Duration>, Option<u64>)> {
        match self.count {
            Some(count) => {
                // The first batches have one more where they are not all equal.
                let share = |all: u64| all / count + u64::from(batch < all % count);
                let budget = self.budget.map(|all| all.div_f64(count as f64));
                Some((budget, self.windows.map(share)))
            }
            None => {
                let left = match self.budget {
                    Some(budget) => Some(budget.checked_sub(self.began.elapsed())?),
                    None => None,
                };
                let before = batch.saturating_mul(WINDOWS);
                let windows = match self.windows {
                    Some(all) => WINDOWS.min(all.checked_sub(before).filter(|left| *left > 0)?),
                    None => WINDOWS,
                };
                Some((left, Some(windows)))
            }
        }
    }

    fn name(&self, batch: u64) -> String {
        match self.count {
            Some(count) => format!("{batch} of {count}"),
            None => batch.to_string(),
        }
    }
}

//! `avicenna lab explore --swarm N`: searches one after the other, each with its own configuration.

use super::options::{Format, Options, words};
use super::{Status, USUAL_BUDGET, Usage, keep, output_to, terminal};
use crate::verb::lab::kernel::real_kernel;
use crate::verb::lab::stages::{INTERRUPT, Stages};
use lab::explore::swarm::{Batch, Swarm, draw};
use lab::explore::{Mix, Prepared, Search, Subject, search};
use lab::ground::Ground;
use lab::watch::{Told, Watch};
use std::process::ExitCode;
use std::time::Duration;

pub(super) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if !matches!(options.format, Format::Text | Format::Json) {
        return Err(Usage::of(anyhow::anyhow!("--swarm: the table of batches is text or json")));
    }
    let mut stages = Stages::open();
    let mut tell = |told: Told<'_>| stages.tell(told);
    let mut watch = Watch::new(&INTERRUPT, Duration::MAX, &mut tell);
    let swarm = all(options, &mut watch)?;
    stages.close();
    match options.format {
        Format::Json => terminal::program(swarm.to_json()?.as_bytes()),
        _ => terminal::print(&swarm.to_text(terminal::columns())),
    };
    let status = match (swarm.is_found(), swarm.is_broken()) {
        (true, _) => Status::Findings,
        (false, true) => Status::CannotTell,
        (false, false) => Status::Clean,
    };
    Ok(status.into())
}

fn all(options: &Options, watch: &mut Watch<'_>) -> anyhow::Result<Swarm> {
    let count: u64 = options.swarm.unwrap_or(1).into();
    let mixes: Vec<Mix> = (0..count)
        .map(|batch| draw(options.subject.seed, batch, options.subject.host.cpus()))
        .collect();
    let mut sandbox = output_to(&options.output)?;
    let host = options.subject.host.host()?;
    let kernel = real_kernel(&options.subject.host, &host, watch)?;
    let store = options.subject.host.store();
    let (additions, store) = (options.subject.host.additions(), store.as_ref());
    let ground = Ground { host: &host, kernel: &kernel, additions, store };
    // What the host boots with depends on polling alone.
    let prepared = [false, true].map(|polls| {
        let mix = mixes.iter().find(|mix| mix.polls == polls)?;
        Some(Subject { ground, mix }.prepare())
    });
    let [silent, polling] = prepared.map(Option::transpose);
    let (silent, polling) = (silent?, polling?);
    options.subject.host.shut_in(&mut sandbox);
    let mut batches = Vec::new();
    let mut release = String::new();
    for (batch, mix) in (0..).zip(&mixes) {
        let Some(prepared) = (if mix.polls { &polling } else { &silent }) else { continue };
        let prepared: Prepared<'_> = prepared.with(mix);
        let stage = prepared.open(watch)?;
        release.clone_from(&stage.release);
        watch.stage(&format!("exploring batch {batch} of {count}"));
        let plan = part(options, batch, count, mix);
        let report = search(stage, &plan, watch, |finding| {
            keep(finding, &Batch::name(batch, &finding.cause()), &options.output)
        })?;
        batches.push(Batch::of(batch, mix.clone(), report));
    }
    Ok(Swarm::new(release, options.subject.seed, batches))
}

/// A batch's share of the search.
fn part(options: &Options, batch: u64, count: u64, mix: &Mix) -> Search {
    let usual = options.windows.is_none().then_some(USUAL_BUDGET);
    let budget = options.budget.or(usual).map(|all| all.div_f64(count as f64));
    // The first batches have one more where they are not all equal.
    let windows = options.windows.map(|all| all / count + u64::from(batch < all % count));
    Search {
        budget,
        windows,
        seed: mix.seed,
        shard: (0, 1),
        jobs: options.jobs.into(),
        words: words(),
        mix: mix.clone(),
    }
}

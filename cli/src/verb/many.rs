//! Several recorded hosts: read by as many threads as there are CPUs, answered in their order.

use super::format::{MonitoringFormat, put_part};
use super::lake;
use super::source::recorded;
use crate::status::Status;
use crate::terminal::remark;
use anyhow::anyhow;
use facts::Facts;
use facts::archive::Packing;
use report::nagios;
use report::prometheus::Metrics;
use rules::Answer;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Hosts that are read before the first of them is answered.
const AT_ONCE: usize = 64;

/// What a verb says of one host.
pub struct Said {
    pub answer: Answer,
    /// As text: lines, with the host's name in each.
    pub text: String,
    /// For programs: everything, on one line.
    pub json: String,
    /// For a plugin's line, without the host's name.
    pub short: String,
    /// Adds what is measured.
    pub metrics: Box<dyn FnOnce(&mut Metrics) + Send>,
}

/// Each path; for a folder that tells of no host itself, such as one of snapshots, what is in it.
pub fn expanded(paths: &[PathBuf]) -> Vec<PathBuf> {
    paths.iter().flat_map(|path| hosts_below(path).unwrap_or_else(|| vec![path.clone()])).collect()
}

/// The same, but a file that is not an archive is left to the caller that asks for their folder.
pub fn expanded_to_snapshots(paths: &[PathBuf]) -> Vec<PathBuf> {
    let below = |path| hosts_below(path).filter(|found| found.iter().all(|one| is_snapshot(one)));
    paths.iter().flat_map(|path| below(path).unwrap_or_else(|| vec![path.clone()])).collect()
}

fn is_snapshot(path: &Path) -> bool {
    path.is_dir() || Packing::of(path).is_some()
}

fn hosts_below(path: &Path) -> Option<Vec<PathBuf>> {
    let is_host = !path.is_dir() || facts::recorded(path).is_ok_and(|inputs| !inputs.is_empty());
    if is_host {
        return None;
    }
    let is_hidden = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
    };
    let entries = std::fs::read_dir(path).ok()?.flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = entries.filter(|path| !is_hidden(path)).collect();
    found.sort();
    (!found.is_empty()).then_some(found)
}

/// Answers for each host; one that cannot be read leaves the others, and the worst decides.
pub fn run(
    verb: &str,
    paths: &[PathBuf],
    format: MonitoringFormat,
    output: Option<&Path>,
    answer: impl Fn(&str, &Facts) -> anyhow::Result<Said> + Sync,
) -> anyhow::Result<ExitCode> {
    let mut worst = Answer::Yes;
    let mut metrics = Metrics::default();
    let mut plugin = Vec::new();
    let mut whole = String::new();
    let mut names = BTreeMap::new();
    for chunk in paths.chunks(AT_ONCE) {
        for (path, outcome) in chunk.iter().zip(in_parallel(chunk, |path| one(path, &answer))) {
            let Host { name: host, said, incomplete } = match outcome {
                Ok(host) => host,
                Err(error) => {
                    remark(&format!("avicenna: {error:#}"));
                    worst = worst.and(Answer::Unknown);
                    let host = path.display().to_string();
                    plugin.push((host, Answer::Unknown, "could not be read".to_owned()));
                    continue;
                }
            };
            if let Some(why) = incomplete {
                remark(&format!("avicenna: {why}"));
            }
            worst = worst.and(said.answer);
            match format {
                MonitoringFormat::Text => whole += &said.text,
                MonitoringFormat::Json | MonitoringFormat::JsonLines => {
                    whole += &said.json;
                    whole.push('\n');
                }
                MonitoringFormat::Prometheus => {
                    if let Some(other) = names.insert(host.clone(), path) {
                        return Err(crate::status::Usage::of(anyhow!(
                            "{} and {} are both called {host}: series would be mixed up",
                            other.display(),
                            path.display()
                        )));
                    }
                    metrics.of_host(&host);
                    (said.metrics)(&mut metrics);
                }
                MonitoringFormat::Nagios => plugin.push((host, said.answer, said.short)),
            }
        }
        if output.is_none() {
            put_part(format, &std::mem::take(&mut whole));
        }
    }
    match format {
        MonitoringFormat::Prometheus => whole = metrics.finish(verb, lake::now_us() / 1_000_000),
        MonitoringFormat::Nagios => whole = nagios::of_hosts(&plugin),
        MonitoringFormat::Text | MonitoringFormat::Json | MonitoringFormat::JsonLines => {}
    }
    if output.is_some() || !whole.is_empty() {
        format.put(&whole, output)?;
    }
    Ok(Status::from(worst).into())
}

/// One host.
struct Host {
    name: String,
    said: Said,
    /// Why there may be more than could be read.
    incomplete: Option<String>,
}

fn one(
    path: &Path,
    answer: &impl Fn(&str, &Facts) -> anyhow::Result<Said>,
) -> anyhow::Result<Host> {
    let inputs = recorded(path)?;
    let facts = facts::facts(&inputs);
    let place = path.display().to_string();
    let said = answer(&place, &facts).map_err(|error| error.context(place))?;
    let name = lake::of_host(&inputs, Some(path), None, None).host;
    let more =
        |why: &String| format!("{}: {why}; what it does not show may be there", facts.origin);
    Ok(Host { name, said, incomplete: facts.incomplete.as_ref().map(more) })
}

/// Something of each path, in their order, whichever thread made it.
pub fn in_parallel<T: Send>(paths: &[PathBuf], work: impl Fn(&Path) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    let go = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = paths.get(at) else { return };
            let made = work(path);
            done.lock().unwrap_or_else(PoisonError::into_inner).insert(at, made);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(paths.len());
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Those that the system does not give are done without.
            let _ = std::thread::Builder::new().spawn_scoped(scope, go);
        }
        go();
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

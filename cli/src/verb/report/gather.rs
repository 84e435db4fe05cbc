//! What the arguments stand for, read.

use super::results::{self, Results};
use crate::terminal::remark;
use crate::verb::exits::by_machine;
use crate::verb::{lake, why};
use analysis::{Analysis, Told, Unfollowed, analyse};
use anyhow::Context as _;
use facts::{Facts, Inputs, watch};
use profile::compare::{Side, compare};
use profile::pairing::Views;
use profile::{Options, Selection, Summary};
use reading::RunningVm;
use report::exits::Report;
use report::exits::machine::Recording;
use report::known::{Host, Known};
use report::lake::{Identity, Lake};
use rules::capability;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Nobody stops a reading of these early.
static UNSTOPPED: AtomicBool = AtomicBool::new(false);

/// What was read, for every format.
#[derive(Default)]
pub struct Gathered {
    pub known: Known,
    /// In the order of the hosts of `known`.
    facts: Vec<(Identity, Facts)>,
    analyses: Vec<(Identity, Analysis)>,
}

/// What a file or folder is.
pub enum Found {
    Host(Box<Inputs>),
    Recordings(Vec<Analysis>),
    Results(Results),
}

impl Gathered {
    /// Reads what exists as a file or folder; other words name machines that run here, or in the
    /// recorded host if one is given.
    pub fn of(
        about: &[PathBuf],
        seconds: Option<f64>,
        name: Option<&str>,
    ) -> anyhow::Result<Gathered> {
        let (paths, machines): (Vec<&PathBuf>, Vec<&PathBuf>) =
            about.iter().partition(|path| path.exists());
        let mut hosts: Vec<(Inputs, Option<PathBuf>)> = Vec::new();
        let mut gathered = Gathered::default();
        for path in paths {
            match find(path) {
                Ok(Found::Host(inputs)) => hosts.push((*inputs, Some(path.clone()))),
                Ok(Found::Recordings(found)) => {
                    let identified = found
                        .into_iter()
                        .map(|one| (lake::of_recording(&one.origin, path, name), one));
                    gathered.analyses.extend(identified);
                }
                Ok(Found::Results(mut found)) => {
                    gathered.known.trials.append(&mut found.trials);
                    gathered.known.outcomes.append(&mut found.outcomes);
                }
                // One of several does not keep the others from being read.
                Err(error) if about.len() > 1 => {
                    gathered.known.unread.push(format!("{error:#}"));
                }
                Err(error) => return Err(error),
            }
        }
        let is_live = hosts.is_empty() && (about.is_empty() || !machines.is_empty());
        if is_live {
            hosts.push((facts::live(), None));
        }
        anyhow::ensure!(
            seconds.is_none() || is_live,
            "a recorded host cannot be watched; leave out --watch"
        );
        let wanted: Vec<String> =
            machines.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        for (inputs, path) in hosts {
            gathered.take_host(&inputs, path.as_deref(), &wanted, seconds, name)?;
        }
        gathered.take_exits();
        Ok(gathered)
    }

    fn take_host(
        &mut self,
        inputs: &Inputs,
        path: Option<&Path>,
        wanted: &[String],
        seconds: Option<f64>,
        name: Option<&str>,
    ) -> anyhow::Result<()> {
        let facts = facts::facts(inputs);
        let check = capability::check(&facts);
        let identity = lake::of_host(inputs, path, check.kernel.as_deref(), name);
        let why = match machines(&facts, wanted) {
            Ok(machines) => {
                let trace = seconds.map(|seconds| {
                    remark(&format!("watching {} machines for {seconds} s", machines.len()));
                    watch::record(seconds)
                });
                let numbering = why::numbering(&facts);
                Some(rules::why::why(&facts, &check, &machines, |vm| match &trace {
                    Some(trace) => {
                        let trace = trace.as_ref().map_err(|why| why::cannot_see(why))?;
                        Ok(trace.observe(&watch::threads_of(vm.pid), &numbering))
                    }
                    None => Err("its running state was not looked at".into()),
                }))
            }
            // Machines that were asked for are there, or it is an error.
            Err(error) if !wanted.is_empty() => return Err(error),
            Err(error) => {
                self.known.unread.push(format!("{error:#}"));
                None
            }
        };
        self.known.hosts.push(Host {
            name: identity.host.clone(),
            time: Some(lake::shown(identity.time_us)),
            check,
            why,
            incomplete: facts.incomplete.clone(),
        });
        self.facts.push((identity, facts));
        Ok(())
    }

    fn take_exits(&mut self) {
        let selection = Selection { by_reason: true, has_times: true, ..Selection::default() };
        for (_, analysis) in &self.analyses {
            self.known.exits.push(Report {
                file: analysis.name.clone(),
                origin: analysis.origin.clone(),
                summary: Summary::new(&analysis.profile, &analysis.context, &selection),
            });
        }
        if let [(_, first), others @ ..] = self.analyses.as_slice() {
            let first = side(first);
            let changes = others.iter().map(|(_, other)| compare(&first, &side(other)));
            self.known.comparisons.extend(changes);
        }
    }

    /// Names of the machines that are known, by process; nothing where two hosts may have the same.
    fn names(&self) -> BTreeMap<u32, String> {
        match self.facts.as_slice() {
            [(_, facts)] => {
                let vms = facts.vms.get().into_iter().flatten();
                vms.filter_map(|vm| Some((vm.pid, vm.name.clone()?))).collect()
            }
            _ => BTreeMap::new(),
        }
    }

    pub fn recordings(&self) -> Vec<Recording> {
        let names = self.names();
        self.analyses.iter().map(|(_, analysis)| by_machine(analysis, &names)).collect()
    }

    /// The same as rows.
    pub fn rows(&self) -> Lake {
        let mut lake = Lake::default();
        for ((identity, facts), host) in self.facts.iter().zip(&self.known.hosts) {
            let host = report::lake::Host { facts, report: &host.check, why: host.why.as_ref() };
            report::lake::host(&host, identity, &mut lake);
        }
        for ((identity, _), recording) in self.analyses.iter().zip(self.recordings()) {
            report::lake::exits(&recording, identity, &mut lake);
        }
        let identity = self
            .facts
            .first()
            .map_or_else(|| lake::of_this_host(None, None), |first| first.0.clone());
        report::lake::trials(&self.known.trials, &identity, &mut lake);
        report::lake::outcomes(&self.known.outcomes, &identity, &mut lake);
        lake
    }
}

fn side(analysis: &Analysis) -> Side<'_> {
    let Analysis { name, profile, context, .. } = analysis;
    Side { name: name.clone(), profile, context, seconds: None, work: None }
}

/// The machines of these names and processes, or all of them.
fn machines<'f>(facts: &'f Facts, wanted: &[String]) -> anyhow::Result<Vec<&'f RunningVm>> {
    if wanted.is_empty() {
        return why::chosen(facts, None);
    }
    let mut all = Vec::new();
    for name in wanted {
        all.extend(why::chosen(facts, Some(name))?);
    }
    Ok(all)
}

/// Tells what a path is by what is in it.
pub fn find(path: &Path) -> anyhow::Result<Found> {
    if let Some(results) = results::find(path) {
        return Ok(Found::Results(results.with_context(|| path.display().to_string())?));
    }
    // A folder of perf record --threads has its header in `data`.
    let is_host = !path.is_dir() || !path.join("data").is_file();
    let host = is_host.then(|| facts::recorded(path));
    let refusal = match host {
        Some(Ok(inputs)) => return Ok(Found::Host(Box::new(inputs))),
        Some(Err(error)) if path.is_dir() => return Err(error.into()),
        Some(Err(error)) => Some(error),
        None => None,
    };
    let told = Told::nothing(Options::new(0, u64::MAX, None, Views { has_accesses: true }));
    match (analyse(path, &told, &UNSTOPPED, &mut Unfollowed), refusal) {
        (Ok(found), _) => Ok(Found::Recordings(found)),
        (Err(error), None) => Err(error.into()),
        (Err(error), Some(refusal)) => Err(anyhow::Error::from(refusal)
            .context(format!("neither a recording ({:#}) nor a host", anyhow::Error::from(error)))),
    }
}

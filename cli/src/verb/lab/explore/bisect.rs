//! `avicenna lab explore bisect`: the same search on one kernel after the other.

use super::options::{Options, Subject as Guest};
use super::{Sandbox, Status, Usage, terminal};
use crate::verb::lab::kernel::real_kernel;
use crate::verb::lab::stages::{INTERRUPT, Stages};
use lab::explore::bisect::{Absent, Bisection, seek};
use lab::explore::{Finding, Search, Subject};
use lab::ground::Ground;
use lab::host::distribution::{DISTRIBUTIONS, USUAL};
use lab::watch::{Halt, Told, Watch};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// As lab explore wrote it
    #[arg(value_name = "FINDING")]
    file: PathBuf,
    /// Kernels, as --kernel takes them [default: the distributions' that are kept or can be
    /// fetched, and the finding's own]
    #[arg(long, value_name = "KERNEL", value_delimiter = ',', num_args = 1)]
    kernels: Vec<String>,
    /// Windows of each kernel's search
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    windows: u64,
    /// How to print what came of it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let finding = Finding::read(&arguments.file).map_err(Usage::of)?;
    let guest = Options::of_words(&finding.words)?;
    if let [module, ..] = &*guest.host.modules {
        return Err(Usage::of(anyhow::anyhow!(
            "the finding was made with --module {}, which fits one kernel alone",
            module.display()
        )));
    }
    let mut stages = Stages::open();
    let mut tell = |told: Told<'_>| stages.tell(told);
    let mut watch = Watch::new(&INTERRUPT, Duration::MAX, &mut tell);
    let found = bisect(arguments, &finding, &guest, &mut watch)?;
    stages.close();
    match arguments.format {
        Format::Text => terminal::print(&found.to_text(terminal::columns())),
        Format::Json => terminal::program(found.to_json()?.as_bytes()),
    };
    Ok(if found.is_found() { Status::Findings } else { Status::Clean }.into())
}

fn bisect(
    arguments: &Arguments,
    finding: &Finding,
    guest: &Guest,
    watch: &mut Watch<'_>,
) -> anyhow::Result<Bisection> {
    let host = guest.host_for(&finding.mix)?;
    let (mut kernels, mut absent) = (Vec::new(), Vec::new());
    for name in names(arguments, guest) {
        let mut own = guest.host.clone();
        own.kernel = Some(name.clone());
        match real_kernel(&own, &host, watch) {
            Ok(kernel) => kernels.push((name, kernel)),
            Err(error) if error.downcast_ref::<Halt>().is_some() => return Err(error),
            // One that was named is wanted.
            Err(error) if !arguments.kernels.is_empty() => return Err(error),
            Err(error) => absent.push(Absent { kernel: name, why: format!("{error:#}") }),
        }
    }
    let (mix, store) = (&finding.mix, guest.host.store());
    let mut prepared = Vec::new();
    for (_, kernel) in &kernels {
        let (additions, store) = (guest.host.additions(), store.as_ref());
        let ground = Ground { host: &host, kernel, additions, store };
        prepared.push(Subject { ground, mix }.prepare()?);
    }
    guest.host.shut_in(&mut Sandbox::default());
    let search = Search {
        budget: None,
        windows: Some(arguments.windows),
        seed: mix.seed,
        shard: (0, 1),
        jobs: 1,
        words: Vec::new(),
        mix: mix.clone(),
        told: BTreeSet::new(),
    };
    let mut tried = Vec::new();
    for ((name, _), prepared) in kernels.iter().zip(prepared) {
        let stage = prepared.open(watch)?;
        watch.stage(&format!("exploring {name}"));
        tried.push(seek(name, stage, &search, &finding.alarm.key(), watch)?);
    }
    Ok(Bisection::new(finding, arguments.windows, tried, absent))
}

/// Those that the user named, or all that have a name, and the finding's own.
fn names(arguments: &Arguments, guest: &Guest) -> Vec<String> {
    if !arguments.kernels.is_empty() {
        return arguments.kernels.clone();
    }
    let own = guest.host.kernel.as_deref().unwrap_or(USUAL);
    let all = DISTRIBUTIONS.iter().map(|one| one.name);
    let mut names: Vec<String> = all.map(str::to_owned).collect();
    if !names.iter().any(|name| name == own) {
        names.push(own.to_owned());
    }
    names
}

//! `avicenna why`: which setting keeps AVIC or APICv from a virtual machine, and the line that
//! changes it.

use super::format::MonitoringFormat;
use super::lake;
use super::many::{self, Said};
use super::source::{self, Source};
use crate::terminal::look;
use anyhow::bail;
use facts::{Facts, watch};
use reading::RunningVm;
use rules::Answer;
use rules::capability;
use rules::why;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trace::inhibit::Numbering;

#[derive(clap::Args)]
#[command(
    after_help = "Exit status: 0 every machine uses it, 1 one does not, 2 usage, 3 could not tell."
)]
pub struct Arguments {
    /// A machine's name, process number, VMID, UUID, libvirt's number, pod or systemd scope; all of
    /// them if not given. Or recorded hosts, or a folder of them: a line for each of their machines
    #[arg(value_name = "VM|PID|PATH")]
    about: Vec<PathBuf>,
    /// Every running machine
    #[arg(long, conflicts_with = "about")]
    all: bool,
    /// Watch the machines for this many seconds through tracefs (root; an instance of its own,
    /// removed afterwards)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    watch: Option<f64>,
    #[command(flatten)]
    source: Source,
    /// How to print; the form of json is docs/schema/why-1.json
    #[arg(long, value_enum, default_value_t)]
    format: MonitoringFormat,
    /// Write there instead of to standard output: the whole answer, or none
    #[arg(short, long, value_name = "FILE")]
    output: Option<std::path::PathBuf>,
    /// One line for each machine
    #[arg(short, long)]
    quiet: bool,
}

pub fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "expected a number of seconds".to_string())?;
    if (0.1..=3600.0).contains(&value) {
        Ok(value)
    } else {
        Err("expected 0.1 to 3600 seconds".into())
    }
}

pub fn run(mut arguments: Arguments) -> anyhow::Result<ExitCode> {
    let wanted = match arguments.about.as_slice() {
        [] => None,
        [one] if arguments.source.root.is_some() || !is_host(one) => {
            Some(one.to_string_lossy().into_owned())
        }
        about if arguments.source.root.is_none() => {
            let paths = many::expanded(about);
            if paths != *about || about.len() > 1 {
                if arguments.watch.is_some() {
                    bail!("a recorded host cannot be watched; leave out --watch");
                }
                return many::run(
                    "why",
                    &paths,
                    arguments.format,
                    arguments.output.as_deref(),
                    of_one,
                );
            }
            arguments.source.root = paths.into_iter().next();
            None
        }
        _ => {
            let why = anyhow::anyhow!("--root is one host: give one machine of it, or none");
            return Err(crate::status::Usage::of(why));
        }
    };
    let facts = arguments.source.facts()?;
    let machines = chosen(&facts, wanted.as_deref())?;
    let trace = match (arguments.watch, &arguments.source.root) {
        (Some(_), Some(_)) => {
            bail!("a recorded host cannot be watched; leave out --watch or --root")
        }
        (Some(seconds), None) => {
            remark!("watching {} machines for {seconds} s", machines.len());
            watch::record(seconds)
        }
        (None, Some(_)) => {
            Err("cannot see the running state, because the host is a recorded one".into())
        }
        (None, None) => {
            Err("did not look at the running state; --watch SECONDS does, through tracefs".into())
        }
    };
    let numbering = numbering(&facts);
    let host = capability::check(&facts);
    let why = why::why(&facts, &host, &machines, |vm| {
        let trace = trace.as_ref().map_err(|why: &String| cannot_see(why))?;
        Ok(trace.observe(&watch::threads_of(vm.pid), &numbering))
    });
    let answer = match arguments.format {
        MonitoringFormat::Json => serde_json::to_string_pretty(&why)? + "\n",
        MonitoringFormat::JsonLines => serde_json::to_string(&why)? + "\n",
        MonitoringFormat::Prometheus => report::why::prometheus(&why, lake::now_us() / 1_000_000),
        MonitoringFormat::Nagios => report::why::nagios(&why),
        MonitoringFormat::Text => {
            report::why::text(&why, facts.incomplete.is_some(), arguments.quiet, look())
        }
    };
    arguments.format.put(&answer, arguments.output.as_deref())?;
    Ok(source::status(&facts, why.verdict()))
}

/// Whether a word is a path of a recorded host. A machine's name has neither of these characters;
/// of a plain word that is both, the machine is meant.
fn is_host(word: &Path) -> bool {
    let text = word.to_string_lossy();
    let is_machine = || chosen(&facts::facts(&facts::live()), Some(&text)).is_ok();
    text == "-" || word.exists() && (text.contains(['/', '.']) || !is_machine())
}

/// One of several recorded hosts, in every form.
fn of_one(name: &str, facts: &Facts) -> anyhow::Result<Said> {
    let machines = chosen(facts, None)?;
    let host = capability::check(facts);
    let unseen =
        |_: &_| Err("cannot see the running state, because the host is a recorded one".into());
    let why = why::why(facts, &host, &machines, unseen);
    let answer = match facts.incomplete {
        Some(_) => Answer::Unknown,
        None => why.verdict(),
    };
    Ok(Said {
        answer,
        text: report::why::lines(&why, name),
        json: serde_json::to_string(&why)?,
        short: report::why::said(&why),
        metrics: Box::new(move |all| report::why::metrics(&why, all)),
    })
}

pub fn cannot_see(why: &str) -> String {
    if why.starts_with("cannot") || why.starts_with("did not") {
        why.into()
    } else {
        format!("cannot see the running state, because {why}")
    }
}

pub fn chosen<'f>(facts: &'f Facts, wanted: Option<&str>) -> anyhow::Result<Vec<&'f RunningVm>> {
    let all = match (facts.vms.get(), &facts.incomplete) {
        (Some(all), _) => all,
        (None, Some(why)) => {
            bail!("{}: {why}: running virtual machines may be missing", facts.origin)
        }
        (None, None) => bail!("the running virtual machines were not recorded"),
    };
    let matches = |vm: &&RunningVm| wanted.is_none_or(|wanted| why::is_called(vm, wanted));
    let found: Vec<&RunningVm> = all.iter().filter(matches).collect();
    if found.is_empty()
        && let Some(wanted) = wanted
    {
        let known: Vec<String> = all.iter().map(name).collect();
        if std::path::Path::new(wanted).exists() {
            bail!("{wanted} is a file, not a virtual machine: avicenna why ./{wanted}");
        }
        bail!(
            "no running virtual machine is called {wanted}; running: {}",
            if known.is_empty() { "none".into() } else { known.join(", ") }
        );
    }
    Ok(found)
}

fn name(vm: &RunningVm) -> String {
    format!("{} ({})", vm.name.as_deref().unwrap_or("-"), vm.pid)
}

/// The kernel's own names come before the version's table.
pub fn numbering(facts: &Facts) -> Numbering {
    let named = facts
        .inhibit_names
        .get()
        .and_then(|names| Numbering::from_names(names.values().map(String::as_str)));
    let of_kernel = || Numbering::of_kernel(&facts.kernel.get()?.release);
    named.or_else(of_kernel).unwrap_or_else(Numbering::assumed)
}

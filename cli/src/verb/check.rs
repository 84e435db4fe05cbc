//! `avicenna check`: can this host accelerate interrupts, and does it.

use super::format::MonitoringFormat;
use super::lake;
use super::many::{self, Said};
use super::source::{self, Source};
use crate::terminal::{clean, look};
use facts::Facts;
use report::check::Detail;
use report::lake::{Host, Lake};
use rules::Answer;
use rules::capability::{self, Report};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(
    after_help = "Three sentences answer: can this hardware, is it on (and why not), what would change that.\n\
                  Below them stand the causes; --all adds what only follows from them and what is good.\n\
                  Exit status: 0 it is on (of hardware alone: it can), 1 something is missing or off, 2 usage,\n\
                  3 could not tell."
)]
pub struct Arguments {
    /// The same as --root PATH; of several, or of a folder of snapshots, a line each
    #[arg(value_name = "PATH", conflicts_with = "root")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    source: Source,
    /// Show every row, with what is good and what only follows from another
    #[arg(short, long)]
    all: bool,
    /// Show every row with what was read for it, and the rule's source
    #[arg(short, long)]
    verbose: bool,
    /// How to print; the form of json is docs/schema/check-1.json
    #[arg(long, value_enum, default_value_t)]
    format: MonitoringFormat,
    /// Write there instead of to standard output: the whole answer, or none
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the answer on one line
    #[arg(short, long, conflicts_with_all = ["all", "verbose"])]
    quiet: bool,
    /// Show which options of the firmware's setup matter, by the names that makers give them
    #[arg(long, conflicts_with_all = ["all", "verbose", "quiet"])]
    firmware: bool,
    #[command(flatten)]
    rows: lake::Rows,
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let paths = many::expanded(&arguments.paths);
    if paths.len() > 1 || paths != arguments.paths {
        if arguments.rows.parquet.is_some() {
            let why = anyhow::anyhow!("rows are written of one host at a time: give one PATH");
            return Err(crate::status::Usage::of(why));
        }
        let output = arguments.output.as_deref();
        return many::run("check", &paths, arguments.format, output, of_one);
    }
    let source = Source { root: arguments.paths.into_iter().next().or(arguments.source.root) };
    let inputs = source.inputs()?;
    let facts = facts::facts(&inputs);
    let report = capability::check(&facts);
    if let Some(folder) = &arguments.rows.parquet {
        let (root, host) = (source.root.as_deref(), arguments.rows.host.as_deref());
        let identity = lake::of_host(&inputs, root, report.kernel.as_deref(), host);
        let mut rows = Lake::default();
        let host = Host { facts: &facts, report: &report, why: None };
        report::lake::host(&host, &identity, &mut rows);
        lake::write(folder, rows)?;
    }
    let answer = match arguments.format {
        MonitoringFormat::Json => serde_json::to_string_pretty(&report)? + "\n",
        MonitoringFormat::JsonLines => serde_json::to_string(&report)? + "\n",
        MonitoringFormat::Prometheus => {
            report::check::prometheus(&report, lake::now_us() / 1_000_000)
        }
        MonitoringFormat::Nagios => report::check::nagios(&report),
        MonitoringFormat::Text if arguments.firmware => report::check::firmware(&report, look()),
        MonitoringFormat::Text => {
            let detail = match (arguments.verbose, arguments.all) {
                (true, _) => Detail::Everything,
                (_, true) => Detail::Rows,
                _ => Detail::Causes,
            };
            match arguments.quiet {
                true => report::check::line(&report, known(&facts, &report), look()),
                false => report::check::text(&report, detail, look()),
            }
        }
    };
    arguments.format.put(&answer, arguments.output.as_deref())?;
    Ok(source::status(&facts, report.verdict()))
}

/// What is answered: nothing for certain where not all of the facts are there.
fn known(facts: &Facts, report: &Report) -> Answer {
    if facts.incomplete.is_some() { Answer::Unknown } else { report.verdict() }
}

/// One of several hosts, in every form.
fn of_one(name: &str, facts: &Facts) -> anyhow::Result<Said> {
    let report = capability::check(facts);
    let answer = known(facts, &report);
    let said = report::check::said(&report).to_owned();
    Ok(Said {
        answer,
        text: format!("{}: {answer}: {}\n", clean(name), clean(&said)),
        json: serde_json::to_string(&report)?,
        short: said,
        metrics: Box::new(move |all| report::check::metrics(&report, all)),
    })
}

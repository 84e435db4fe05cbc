//! `avicenna check`: can this host accelerate interrupts, and does it.

mod many;

use super::format::MonitoringFormat;
use super::lake;
use super::source::{self, Source};
use crate::terminal::look;
use report::check::Detail;
use report::lake::{Host, Lake};
use rules::capability;
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
    /// The same as --root PATH; of several, a line each, and with --format json a report a line
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
    /// Print the answers only: at most ten lines
    #[arg(short, long, conflicts_with_all = ["all", "verbose"])]
    quiet: bool,
    #[command(flatten)]
    rows: lake::Rows,
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    if arguments.paths.len() > 1 {
        if arguments.rows.parquet.is_some() {
            let why = anyhow::anyhow!("rows are written of one host at a time: give one PATH");
            return Err(crate::status::Usage::of(why));
        }
        return many::run(&arguments.paths, arguments.format);
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
        MonitoringFormat::Prometheus => {
            report::check::prometheus(&report, lake::now_us() / 1_000_000)
        }
        MonitoringFormat::Nagios => report::check::nagios(&report),
        MonitoringFormat::Text => {
            let detail = match (arguments.quiet, arguments.verbose, arguments.all) {
                (true, ..) => Detail::Answers,
                (_, true, _) => Detail::Everything,
                (_, _, true) => Detail::Rows,
                _ => Detail::Causes,
            };
            report::check::text(&report, detail, look())
        }
    };
    arguments.format.put(&answer, arguments.output.as_deref())?;
    Ok(source::status(&facts, report.verdict()))
}

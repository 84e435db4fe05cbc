//! `avicenna report`: everything known of a host, its virtual machines and recordings.

mod gather;
mod many;
mod results;

pub use many::host_rows;

use super::exits::{Reader, write};
use super::lake;
use super::why::seconds;
use crate::status::Status;
use crate::terminal;
use gather::Gathered;
use report::prometheus::Metrics;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(
    after_help = "Exit status: 0 nothing is wrong, 1 something is, 2 usage, 3 could not tell."
)]
pub struct Arguments {
    /// Running virtual machines by name or process; recorded hosts (folders, snapshots,
    /// sosreports); recordings of exits, the first of which the others are compared with; results
    /// of experiments [default: this host with every virtual machine]
    #[arg(value_name = "VM|DIR|FILE")]
    about: Vec<PathBuf>,
    /// Watch the machines of this host for this many seconds, for the history of inhibits (root)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    watch: Option<f64>,
    /// How to print; the form of json is docs/schema/report-1.json
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Write there instead of to standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    rows: lake::Rows,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For a terminal
    #[default]
    Text,
    /// For tickets and wikis
    Markdown,
    /// A self-contained page with plots
    Html,
    /// Everything, versioned
    Json,
    /// Every table
    Csv,
    /// Metrics of one host for node_exporter's textfile collector
    Prometheus,
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &arguments.rows.parquet
        && arguments.watch.is_none()
        && arguments.about.len() > 1
    {
        // Rows need no page, and there may be thousands of hosts.
        return many::write(&arguments.about, arguments.rows.host.as_deref(), folder);
    }
    let gathered = Gathered::of(&arguments.about, arguments.watch, arguments.rows.host.as_deref())?;
    if let Some(folder) = &arguments.rows.parquet {
        lake::write(folder, gathered.rows())?;
    }
    let known = &gathered.known;
    let most = match arguments.output {
        Some(_) => usize::MAX,
        None => terminal::columns(),
    };
    let text = match arguments.format {
        Format::Text => known.document().to_text_within(most),
        Format::Markdown => known.document().to_markdown(),
        Format::Html => known.document().to_html(),
        Format::Json => known.document().to_json()?,
        Format::Csv => known.document().to_csv(),
        Format::Prometheus => metrics(&gathered)?,
    };
    match (arguments.format, &arguments.output) {
        (Format::Text, None) => {
            terminal::print(&text);
        }
        (Format::Prometheus, None) => terminal::print_for_program(&text),
        (Format::Json, None) => terminal::print_json_text(&text),
        (_, path) => write(path.as_deref(), text.as_bytes(), Reader::Program)?,
    }
    Ok(Status::from(known.verdict()).into())
}

/// One file holds one host's series.
fn metrics(gathered: &Gathered) -> anyhow::Result<String> {
    let known = &gathered.known;
    anyhow::ensure!(
        known.hosts.len() <= 1,
        "--format prometheus is of one host, and {} are given",
        known.hosts.len()
    );
    let mut metrics = Metrics::default();
    for host in &known.hosts {
        report::check::metrics(&host.check, &mut metrics);
        host.why.iter().for_each(|why| report::why::metrics(why, &mut metrics));
    }
    report::exits::metrics::metrics(&gathered.recordings(), &mut metrics);
    Ok(metrics.finish("report", lake::now_us() / 1_000_000))
}

//! `avicenna exits compare`

use super::arguments::WhatCounts;
use super::interrupt::stop_on_interrupt;
use super::output::{self, Reader};
use super::progress::Bars;
use analysis::{Analysis, analyse};
use anyhow::Context as _;
use clap::ValueEnum;
use profile::compare::{Comparison, Side, compare};
use profile::pairing::Views;
use report::exits::compare as render;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Arguments {
    /// Recordings of any kind; the first is what the others are compared with. FILE#2 means the
    /// second table of a page with several
    #[arg(num_args = 1.., required = true)]
    files: Vec<PathBuf>,
    /// Work done during each recording, in the order of the files (requests, frames, …)
    #[arg(long, value_delimiter = ',')]
    work: Vec<f64>,
    /// Seconds each recording lasted, where it does not say, in the order of the files
    #[arg(long, value_delimiter = ',')]
    seconds: Vec<f64>,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write there instead of to standard output
    #[arg(short, long)]
    output: Option<PathBuf>,
    #[command(flatten)]
    what: WhatCounts,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
    Csv,
    Markdown,
    Html,
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let told = arguments.what.told(Views { has_accesses: false })?;
    let stop = stop_on_interrupt()?;
    let mut analyses: Vec<Analysis> = Vec::new();
    for path in &arguments.files {
        let (path, number) = split_number(path);
        let mut found = analyse(path, &told, &stop, &mut Bars::default())?;
        match number {
            None => analyses.append(&mut found),
            Some(number) => {
                let count = found.len();
                let table = number.checked_sub(1).filter(|at| *at < count);
                let at = table.with_context(|| {
                    format!("{} has {count} recordings, not {number}", path.display())
                })?;
                analyses.push(found.swap_remove(at));
            }
        }
    }
    anyhow::ensure!(analyses.len() >= 2, "two recordings are needed to compare");
    for (name, given) in [("--work", &arguments.work), ("--seconds", &arguments.seconds)] {
        anyhow::ensure!(
            given.is_empty() || given.len() == analyses.len(),
            "{name} needs one number for each of the {} recordings",
            analyses.len()
        );
        anyhow::ensure!(given.iter().all(|n| *n > 0.0), "{name} needs numbers above zero");
    }
    let sides: Vec<Side<'_>> = analyses
        .iter()
        .enumerate()
        .map(|(index, analysis)| Side {
            name: analysis.name.clone(),
            profile: &analysis.profile,
            context: &analysis.context,
            seconds: arguments.seconds.get(index).copied(),
            work: arguments.work.get(index).copied(),
        })
        .collect();
    let comparisons: Vec<Comparison> =
        sides[1..].iter().map(|side| compare(&sides[0], side)).collect();
    for analysis in &analyses {
        for warning in &analysis.origin.warnings {
            remark!("avicenna: {}: {warning}", analysis.name);
        }
    }
    let each = |render: fn(&Comparison) -> String| {
        comparisons.iter().map(render).collect::<Vec<_>>().join("\n")
    };
    let rendered = match arguments.format {
        Format::Text => each(render::text),
        Format::Json => serde_json::to_string_pretty(&comparisons)? + "\n",
        Format::Csv => each(|comparison| render::grid(comparison).to_csv()),
        Format::Markdown => each(render::markdown),
        Format::Html => render::html(&comparisons),
    };
    let reader = match arguments.format {
        Format::Text => Reader::Person,
        _ => Reader::Program,
    };
    output::write(arguments.output.as_deref(), rendered.as_bytes(), reader)?;
    Ok(ExitCode::SUCCESS)
}

/// `FILE#2` unless there is a file of that name.
fn split_number(path: &Path) -> (&Path, Option<usize>) {
    let text = path.to_str().filter(|_| !path.exists());
    match text.and_then(|text| text.rsplit_once('#')) {
        Some((file, number)) if number.parse::<usize>().is_ok() => {
            (Path::new(file), number.parse().ok())
        }
        _ => (path, None),
    }
}

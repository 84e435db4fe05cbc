//! `avicenna machine trace`: prints a trace of the machine, exports it, or asks it questions.

mod query;

use super::size::parse_duration;
use super::symbols;
use crate::sandbox::{self, Sandbox};
use crate::status::Usage;
use crate::terminal;
use anyhow::{Context, anyhow};
use arch::time::Picoseconds;
use change::{Like, Output};
use lab::drive::recording::symbols_of;
use report::records::{Form, Table};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trace::event::{Event, Record};
use trace::symbol::Symbols;

/// Bytes that are written in one go.
const AT_ONCE: usize = 64 << 10;

#[derive(clap::Args)]
pub struct Arguments {
    /// A file that --trace of `machine run` or of `lab` wrote
    file: PathBuf,
    /// How to print or export it; csv, ndjson and parquet are one table with a row for each event
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write here instead of to standard output; ctf makes a folder of this name
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What to ask of the table `trace` instead, answered by DuckDB: the program duckdb, or
    /// python3 with the module duckdb
    #[arg(long, value_name = "SQL", conflicts_with_all = ["format", "output"])]
    query: Option<String>,
    /// Leave out what is before this virtual time since power-on, such as 395ms
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "0s")]
    from: Picoseconds,
    /// Leave out what is at this virtual time or later
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    to: Option<Picoseconds>,
    #[command(flatten)]
    symbols: symbols::Arguments,
    #[command(flatten)]
    sandbox: sandbox::Arguments,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A line for each event
    Text,
    /// With a line of columns first
    Csv,
    /// A JSON object for each event
    Ndjson,
    /// Apache Parquet, for DuckDB, pandas and the like
    #[cfg(feature = "parquet")]
    Parquet,
    /// For ui.perfetto.dev
    Perfetto,
    /// Common Trace Format 1.8, for Trace Compass and babeltrace2
    Ctf,
}

/// What is read, and what code is called in it.
struct Reading {
    records: Box<dyn Iterator<Item = anyhow::Result<Record>>>,
    symbols: Symbols,
}

/// Where an export goes.
enum To {
    File(Box<Output>),
    /// As long as it is read.
    Stdout,
}

impl Arguments {
    /// Whether a virtual APIC is the hardware's holds until it changes, so an export has what was
    /// said of it before its stretch begins.
    fn is_wanted(&self, record: &Record) -> bool {
        let is_state =
            self.format == Format::Perfetto && matches!(record.event, Event::VirtualApic { .. });
        (record.at >= self.from || is_state) && self.to.is_none_or(|to| record.at < to)
    }

    /// Puts up the sandbox, and opens the trace behind it.
    fn read(&self, mut sandbox: Sandbox) -> anyhow::Result<Reading> {
        let name = self.file.display().to_string();
        let usual = symbols_of(&self.file);
        let symbols = self.symbols.files().chain([usual.as_path()]);
        symbols.chain([self.file.as_path()]).for_each(|path| sandbox.reads(path));
        sandbox.raise(&self.sandbox);
        let file =
            facts::source::open(&self.file).with_context(|| format!("cannot open {name}"))?;
        let reader = trace::file::Reader::new(BufReader::new(file))
            .with_context(|| format!("cannot read {name}"))?;
        let records =
            reader.map(move |record| record.with_context(|| format!("cannot read {name}")));
        let symbols = self.symbols.read(Some(&usual))?;
        Ok(Reading { records: Box::new(records), symbols })
    }
}

impl Write for To {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(output) => output.write(bytes),
            Self::Stdout if terminal::program(bytes) => Ok(bytes.len()),
            Self::Stdout => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(output) => output.flush(),
            Self::Stdout => Ok(()),
        }
    }
}

pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if let Some(sql) = &arguments.query {
        return query::ask(arguments, sql);
    }
    let mut sandbox = Sandbox::default();
    if arguments.format == Format::Ctf {
        let Some(folder) = &arguments.output else {
            return Err(Usage::of(anyhow!("--format ctf is a folder: --output NAME says which")));
        };
        std::fs::create_dir(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        sandbox.keeps(folder);
        export_ctf(arguments, arguments.read(sandbox)?, folder)?;
        return Ok(ExitCode::SUCCESS);
    }
    let output = arguments.output.as_deref().map(|path| sandbox.output(path)).transpose()?;
    let to = output.map_or(To::Stdout, |output| To::File(Box::new(output)));
    let reading = arguments.read(sandbox)?;
    match export(arguments, reading, to) {
        // Its reader has enough.
        Err(error) if is_closed(&error) => Ok(ExitCode::SUCCESS),
        ended => ended.map(|()| ExitCode::SUCCESS),
    }
}

fn is_closed(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn export(arguments: &Arguments, reading: Reading, to: To) -> anyhow::Result<()> {
    let Reading { records, symbols } = reading;
    // To the end of the file: what devices do stands a little before or behind its time.
    let wanted =
        records.filter(|record| record.as_ref().map_or(true, |record| arguments.is_wanted(record)));
    let mut output = BufWriter::with_capacity(AT_ONCE, to);
    let form = match arguments.format {
        Format::Text | Format::Ctf => {
            for record in wanted {
                let record = record?;
                let place = record.event.rip().and_then(|rip| symbols.name(rip));
                let place = place.map(|name| format!("  {name}")).unwrap_or_default();
                let line = terminal::clean(&format!("{record}{place}"));
                writeln!(output, "{line}")?;
            }
            return finish(output);
        }
        Format::Perfetto => {
            let mut export = trace::perfetto::Export::new(output, symbols)?;
            for record in wanted {
                export.push(&record?)?;
            }
            return finish(export.finish()?);
        }
        Format::Csv => Form::Csv,
        Format::Ndjson => Form::Ndjson,
        #[cfg(feature = "parquet")]
        Format::Parquet => Form::Parquet,
    };
    output.flush()?;
    let mut table = Table::new(output, form, symbols)?;
    for record in wanted {
        table.push(&record?)?;
    }
    finish(table.finish()?)
}

fn finish(output: BufWriter<To>) -> anyhow::Result<()> {
    match output.into_inner().map_err(|error| error.into_error())? {
        To::File(output) => output.finish(Like::Umask).map(drop)?,
        To::Stdout => {}
    }
    Ok(())
}

/// Files in a folder that is new.
fn export_ctf(arguments: &Arguments, reading: Reading, folder: &Path) -> anyhow::Result<()> {
    let mut open = |name: &str| {
        let file = File::options().write(true).create_new(true).open(folder.join(name))?;
        Ok(BufWriter::with_capacity(AT_ONCE, file))
    };
    let mut export = trace::ctf::Export::new(&mut open, reading.symbols)?;
    for record in reading.records {
        let record = record?;
        if arguments.is_wanted(&record) {
            export.push(&record)?;
        }
    }
    Ok(export.finish()?)
}

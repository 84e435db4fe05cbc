//! `avicenna machine trace`: prints a trace of the machine, or exports it for the Perfetto UI.

use super::size::parse_duration;
use super::symbols;
use crate::sandbox::{self, Sandbox};
use crate::terminal;
use anyhow::Context;
use arch::time::Picoseconds;
use change::Like;
use lab::drive::recording::symbols_of;
use std::io::{BufReader, BufWriter};
use std::path::PathBuf;
use std::process::ExitCode;
use trace::event::{Event, Record};

/// Bytes that are written in one go.
const AT_ONCE: usize = 64 << 10;

#[derive(clap::Args)]
pub struct Arguments {
    /// A file that --trace of `machine run` or of `lab` wrote
    file: PathBuf,
    /// Write a file that the Perfetto UI opens, instead of printing
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
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

impl Arguments {
    /// Whether a virtual APIC is the hardware's holds until it changes, so an export has what was
    /// said of it before its stretch begins.
    fn is_wanted(&self, record: &Record) -> bool {
        let is_state = self.perfetto.is_some() && matches!(record.event, Event::VirtualApic { .. });
        (record.at >= self.from || is_state) && self.to.is_none_or(|to| record.at < to)
    }
}

pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let name = arguments.file.display();
    let mut sandbox = Sandbox::default();
    let output = arguments.perfetto.as_deref().map(|path| sandbox.output(path)).transpose()?;
    let usual = symbols_of(&arguments.file);
    let symbols = arguments.symbols.files().chain([usual.as_path()]);
    symbols.chain([arguments.file.as_path()]).for_each(|path| sandbox.reads(path));
    sandbox.raise(&arguments.sandbox);
    let file =
        facts::source::open(&arguments.file).with_context(|| format!("cannot open {name}"))?;
    let reader = trace::file::Reader::new(BufReader::new(file))
        .with_context(|| format!("cannot read {name}"))?;
    // To the end of the file: what devices do stands a little before or behind its time.
    let reader =
        reader.filter(|record| record.as_ref().map_or(true, |record| arguments.is_wanted(record)));
    let symbols = arguments.symbols.read(Some(&usual))?;
    match output {
        None => {
            let mut lines = String::new();
            for record in reader {
                let record = record.with_context(|| format!("cannot read {name}"))?;
                let place = record.event.rip().and_then(|rip| symbols.name(rip));
                let place = place.map(|name| format!("  {name}")).unwrap_or_default();
                lines.push_str(&format!("{record}{place}\n"));
                if lines.len() > AT_ONCE {
                    if !terminal::print(&lines) {
                        return Ok(ExitCode::SUCCESS);
                    }
                    lines.clear();
                }
            }
            terminal::print(&lines);
        }
        Some(output) => {
            let output = BufWriter::new(output);
            let mut export = trace::perfetto::Export::new(output, symbols)?;
            for record in reader {
                export.push(&record.with_context(|| format!("cannot read {name}"))?)?;
            }
            let output = export.finish()?.into_inner().map_err(|error| error.into_error())?;
            output.finish(Like::Umask)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

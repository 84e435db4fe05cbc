//! `avicenna machine trace`: prints a trace of the machine, or exports it for the Perfetto UI.

use super::size::parse_duration;
use super::symbols;
use anyhow::Context;
use arch::time::Picoseconds;
use lab::drive::recording::symbols_of;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use trace::event::{Event, Record};

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
    let file = File::open(&arguments.file).with_context(|| format!("cannot open {name}"))?;
    let reader = trace::file::Reader::new(BufReader::new(file))
        .with_context(|| format!("cannot read {name}"))?;
    // To the end of the file: what devices do stands a little before or behind its time.
    let reader =
        reader.filter(|record| record.as_ref().map_or(true, |record| arguments.is_wanted(record)));
    let symbols = arguments.symbols.read(Some(&symbols_of(&arguments.file)))?;
    match &arguments.perfetto {
        None => {
            let mut output = BufWriter::new(std::io::stdout().lock());
            for record in reader {
                let record = record.with_context(|| format!("cannot read {name}"))?;
                let place = record.event.rip().and_then(|rip| symbols.name(rip));
                let place = place.map(|name| format!("  {name}")).unwrap_or_default();
                if writeln!(output, "{record}{place}").is_err() {
                    break;
                }
            }
        }
        Some(path) => {
            let output =
                File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
            let mut export = trace::perfetto::Export::new(BufWriter::new(output), symbols)?;
            for record in reader {
                export.push(&record.with_context(|| format!("cannot read {name}"))?)?;
            }
            export.finish()?.flush()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

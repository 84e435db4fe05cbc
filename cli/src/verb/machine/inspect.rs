//! `avicenna machine inspect`: what a saved machine holds, as `info` of the monitor shows it.

use super::monitor::form;
use crate::sandbox::{self, Sandbox};
use crate::status::Usage;
use crate::terminal;
use anyhow::{Context, anyhow};
use arch::address::SystemPhysical;
use arch::identity::CpuIndex;
use board::inspection::{Query, Subject, View};
use board::snapshot::SavedMachine;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Arguments {
    /// A file that --snapshot-on of `machine run` wrote
    snapshot: PathBuf,
    /// What to show of it
    #[arg(default_value = "registers", value_parser = subject_parser())]
    what: Subject,
    /// The processor, where each has one
    #[arg(long, value_name = "N", default_value_t = 0)]
    cpu: u16,
    /// Where it lies in system physical memory, such as 0x5000, instead of the processor's own
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    at: Option<SystemPhysical>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    sandbox: sandbox::Arguments,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

/// A subject by its name, of which help and errors list all.
fn subject_parser() -> impl TypedValueParser<Value = Subject> {
    let words = Subject::ALL.map(|(name, _, shows)| PossibleValue::new(name).help(shows));
    PossibleValuesParser::new(words)
        .try_map(|word| Subject::named(&word).ok_or("is in the list, and is none"))
}

fn parse_address(text: &str) -> Result<SystemPhysical, String> {
    let digits = text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    digits.map(SystemPhysical).ok_or_else(|| "must be hexadecimal, such as 0x5000".into())
}

pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut sandbox = Sandbox::default();
    sandbox.reads(&arguments.snapshot);
    sandbox.raise(&arguments.sandbox);
    let name = arguments.snapshot.display().to_string();
    let file =
        facts::source::open(&arguments.snapshot).with_context(|| format!("cannot open {name}"))?;
    let saved = SavedMachine::open(&name, BufReader::new(file))?;
    let view = View { state: &saved.state, memory: &saved.memory };
    let query = Query { subject: arguments.what, cpu: CpuIndex(arguments.cpu), at: arguments.at };
    let sheets = view.look(query).map_err(|absent| Usage::of(anyhow!("{absent}")))?;
    match arguments.format {
        Format::Text => terminal::print(&form::text(&sheets)),
        Format::Json => {
            return terminal::print_json(&form::Inspected::of(&sheets)).map(|()| ExitCode::SUCCESS);
        }
    };
    Ok(ExitCode::SUCCESS)
}

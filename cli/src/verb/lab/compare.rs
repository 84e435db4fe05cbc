//! `avicenna lab compare`: two results of `lab run` side by side.

use crate::status::{Status, Usage};
use crate::terminal;
use lab::result::compare::{Side, compare};
use lab::verdict::expect::Expectation;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Longer files are not results.
const MOST_BYTES: u64 = 64 << 20;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// A result of lab run --format json
    first: PathBuf,
    /// Another, of the same workload
    second: PathBuf,
    /// Compare what ran without the feature
    #[arg(long)]
    off: bool,
    /// End with status 1 unless this holds of the two, which stand for off and on, such as
    /// 'exits.change <= 5'
    #[arg(long = "expect", value_name = "EXPECTATION")]
    expectations: Vec<Expectation>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let (first, second) = (read(&arguments.first)?, read(&arguments.second)?);
    let names = [&arguments.first, &arguments.second].map(|path| path.display().to_string());
    let side = if arguments.off { Side::Off } else { Side::On };
    let expectations = &arguments.expectations;
    let compared = compare([&first, &second], [&names[0], &names[1]], side, expectations);
    let compared = compared.map_err(Usage::of)?;
    match arguments.format {
        Format::Text => terminal::print(&compared.to_text(terminal::columns())),
        Format::Json => terminal::program(compared.to_json()?.as_bytes()),
    };
    let is_good = compared.unexpected.is_empty();
    Ok(if is_good { Status::Clean } else { Status::Findings }.into())
}

fn read(path: &Path) -> anyhow::Result<String> {
    crate::verb::source::text(path, MOST_BYTES, "more than a result has")
}

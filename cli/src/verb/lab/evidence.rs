//! `avicenna lab evidence`: published figures, and what the lab gives for them.

mod plans;

use crate::status::{Status, Usage};
use crate::terminal;
use lab::evidence::Published;
use lab::evidence::kept::Kept;
use lab::evidence::table::Table;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Run the plans; without it, what they gave when they ran last
    #[arg(long)]
    run: bool,
    /// Figures of one source alone, by its short name
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// One figure alone, by the name of its file
    #[arg(long, value_name = "NAME")]
    figure: Option<String>,
    /// A file that plans need, such as vmexit.flat, kvm-unit-tests' program
    #[arg(long = "file", value_name = "NAME=PATH", value_parser = parse_file)]
    files: Vec<(String, PathBuf)>,
    /// A word that every plan gets besides, such as --kernel=debian-12
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    with: Vec<String>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    Markdown,
    Html,
}

pub(super) fn run(arguments: &Arguments, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let figures = chosen(arguments).map_err(Usage::of)?;
    let files: BTreeMap<String, PathBuf> = arguments.files.iter().cloned().collect();
    let mut kept = Kept::open();
    let mut failures = BTreeMap::new();
    let mut is_interrupted = false;
    if arguments.run {
        let plans = plans::Plans { figures: &figures, files: &files, with: &arguments.with, stop };
        is_interrupted = plans.run(&mut kept, &mut failures)?;
    }
    let table = Table::new(&figures, &kept, |figure| {
        failures.get(&figure.name).cloned().or_else(|| plans::missing(figure, &files))
    });
    let document = || table.document();
    match arguments.format {
        Format::Text => terminal::print(&document().to_text_within(terminal::columns())),
        Format::Json => terminal::program(&serde_json::to_vec_pretty(&table)?),
        Format::Markdown => terminal::program(document().to_markdown().as_bytes()),
        Format::Html => terminal::program(document().to_html().as_bytes()),
    };
    Ok(if is_interrupted {
        Status::Interrupted.into()
    } else if failures.is_empty() {
        Status::Clean.into()
    } else {
        Status::CannotTell.into()
    })
}

fn chosen(arguments: &Arguments) -> anyhow::Result<Vec<Published>> {
    let all = Published::all();
    let is_meant = |one: &&Published| {
        arguments.source.as_ref().is_none_or(|source| *source == one.published.source)
            && arguments.figure.as_ref().is_none_or(|name| *name == one.name)
    };
    let meant: Vec<Published> = all.iter().filter(is_meant).cloned().collect();
    if meant.is_empty() {
        let mut sources: Vec<&str> = all.iter().map(|one| one.published.source.as_str()).collect();
        sources.sort_unstable();
        sources.dedup();
        anyhow::bail!("there is no such figure: sources are {}", sources.join(", "));
    }
    Ok(meant)
}

fn parse_file(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("must be NAME=PATH")?;
    let path = PathBuf::from(path);
    match path.is_file() {
        true => Ok((name.to_owned(), path)),
        false => Err(format!("{} is not a file", path.display())),
    }
}

//! `avicenna snapshot`: the raw inputs of a host in one file, without its secrets.

use super::source::Source;
use anyhow::Context;
use facts::inputs::Content;
use facts::{redact, snapshot};
use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(
    after_help = "Collects what check, why, lint and enable read, and nothing else. Root is not needed: what cannot be \
                  read is recorded as such. Serial numbers, addresses, identifiers and secrets are left out."
)]
pub struct Arguments {
    /// Where to write; `-` is standard output
    #[arg(short, long, value_name = "FILE.tar.zst", default_value = "avicenna-snapshot.tar.zst")]
    output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Print the redaction rules and do nothing
    #[arg(long)]
    show_rules: bool,
    #[command(flatten)]
    source: Source,
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    if arguments.show_rules {
        for rule in redact::RULES {
            print!(
                "{}",
                crate::terminal::hanging(&format!("<redacted:{}>", rule.kind), 22, rule.what)
            );
        }
        return Ok(ExitCode::SUCCESS);
    }
    let inputs = arguments.source.inputs()?;
    let tool = concat!("avicenna ", env!("CARGO_PKG_VERSION"));
    if arguments.output.as_os_str() == "-" {
        anyhow::ensure!(!io::stdout().is_terminal(), "standard output is a terminal; give -o FILE");
        snapshot::write(&inputs, tool, io::stdout().lock())?;
    } else {
        let path = &arguments.output;
        let mut options = OpenOptions::new();
        options.write(true).create_new(!arguments.force).create(true).truncate(arguments.force);
        let file = options.open(path).with_context(|| {
            format!("{}: cannot be created (--force replaces an existing file)", path.display())
        })?;
        let mut file = io::BufWriter::new(file);
        snapshot::write(&inputs, tool, &mut file)?;
        file.flush()?;
    }
    let unreadable: Vec<(&str, &str)> = inputs
        .files()
        .filter_map(|(path, content)| match content {
            Content::Unreadable(why) => Some((path, why.as_str())),
            Content::Bytes(_) => None,
        })
        .collect();
    let files = inputs.files().count() - unreadable.len();
    eprintln!("{files} files in {}", arguments.output.display());
    for (path, why) in unreadable {
        eprintln!("could not be read: {path}: {why}");
    }
    Ok(ExitCode::SUCCESS)
}

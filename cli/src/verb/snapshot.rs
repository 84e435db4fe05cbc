//! `avicenna snapshot`: the raw inputs of a host in one file, without its secrets.

use super::lake;
use super::source::Source;
use crate::status::Status;
use crate::terminal::{clean, look, print};
use anyhow::Context;
use change::{Like, Output};
use facts::inputs::Content;
use facts::snapshot::{Member, Stamp};
use facts::{redact, snapshot};
use report::lake::Lake;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(
    after_help = "Collects what check, why, lint and enable read, and nothing else. Root is not needed: what cannot be \
                  read is recorded as such. Names, addresses, serial numbers and secrets are replaced by made-up ones."
)]
pub struct Arguments {
    /// Where to write; `-` is standard output
    #[arg(short, long, value_name = "FILE.tar.zst", default_value = "avicenna-snapshot.tar.zst")]
    output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Print what would be written, file by file, and write nothing
    #[arg(long)]
    show: bool,
    /// Print the redaction rules and do nothing
    #[arg(long)]
    show_rules: bool,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    rows: lake::Rows,
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    if arguments.show_rules {
        for rule in redact::RULES {
            print(&look().hanging(rule.kind, 10, rule.what));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let root = arguments.source.root.as_deref();
    let inputs = facts::with_initial_disk(arguments.source.inputs()?, root);
    let earlier = snapshot::manifest(&inputs);
    let earlier = earlier.map_or((None, None), |manifest| (manifest.host, manifest.time));
    // A recorded host stays of its own time.
    let time = match root {
        Some(_) => earlier.1,
        None => Some(lake::now_us() / 1_000_000),
    };
    let host = arguments.rows.host.clone().or(earlier.0);
    let tool = report::document::TOOL;
    let stamp = Stamp { tool, host: host.as_deref(), time };
    if arguments.show {
        for member in snapshot::members(&inputs, &stamp)? {
            show(&member);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.output.as_os_str() == "-" {
        anyhow::ensure!(!io::stdout().is_terminal(), "standard output is a terminal; give -o FILE");
        snapshot::write(&inputs, &stamp, io::stdout().lock())?;
    } else {
        let path = &arguments.output;
        anyhow::ensure!(
            arguments.force || path.symlink_metadata().is_err(),
            "{}: is there already (--force replaces it)",
            path.display()
        );
        let mut output = io::BufWriter::new(Output::to(path)?);
        snapshot::write(&inputs, &stamp, &mut output)?;
        let output = output.into_inner().map_err(|error| error.into_error());
        // What is left of a host's inputs is for whom its owner chooses.
        output.with_context(|| path.display().to_string())?.finish(Like::Mode(0o600))?;
    }
    if let Some(folder) = &arguments.rows.parquet {
        let mut rows = Lake::default();
        super::report::host_rows(&inputs, root, host.as_deref(), &mut rows);
        lake::write(folder, rows)?;
    }
    let unreadable: Vec<(&str, &str)> = inputs
        .files()
        .filter_map(|(path, content)| match content {
            Content::Unreadable(why) => Some((path, why.as_str())),
            Content::Bytes(_) => None,
        })
        .collect();
    let files = inputs.files().count() - unreadable.len();
    remark!("{files} files in {}", arguments.output.display());
    for line in grouped(&unreadable) {
        remark!("could not be read: {line}");
    }
    if let Some(why) = inputs.incomplete() {
        remark!("avicenna: {}: {why}: the snapshot lacks the rest", inputs.origin);
        return Ok(Status::CannotTell.into());
    }
    Ok(ExitCode::SUCCESS)
}

/// A file as it would be in the snapshot.
fn show(member: &Member) {
    let Member { path, bytes, replaced } = member;
    say!("==> {} ({} bytes, {replaced} words replaced)", clean(path), bytes.len());
    match std::str::from_utf8(bytes) {
        Ok(text) => print(&text.replace('\0', " ")),
        Err(_) => print("a table in binary form, as the firmware has it"),
    };
    print("\n");
}

/// Files of one folder that share a reason are one line where they are many.
fn grouped(unreadable: &[(&str, &str)]) -> Vec<String> {
    const FEW: usize = 3;
    let folder = |path: &str| path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    unreadable
        .chunk_by(|a, b| folder(a.0) == folder(b.0) && a.1 == b.1)
        .flat_map(|group| match group {
            [(path, why), ..] if group.len() > FEW => {
                vec![format!("{} files in {}: {why}", group.len(), folder(path))]
            }
            _ => group.iter().map(|(path, why)| format!("{path}: {why}")).collect(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_files_of_a_folder_with_one_reason_are_one_line() {
        let many: Vec<String> = (0..5).map(|n| format!("sys/kernel/debug/kvm/{n}")).collect();
        let mut files: Vec<(&str, &str)> = vec![("avicenna/msr/0.txt", "not there")];
        files.extend(many.iter().map(|path| (path.as_str(), "permission denied")));
        files.extend([("z/a", "denied"), ("z/b", "other")]);
        assert_eq!(
            grouped(&files),
            [
                "avicenna/msr/0.txt: not there",
                "5 files in sys/kernel/debug/kvm: permission denied",
                "z/a: denied",
                "z/b: other"
            ]
        );
    }
}

//! `avicenna rollback`: takes back what `enable --apply` did, exactly.

use super::enable::{Programs, confirmed, root};
use crate::terminal::clean;
use change::{Done, Host, Record};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Arguments {
    /// A copy of a host instead of this one
    #[arg(long, value_name = "FOLDER")]
    root: Option<PathBuf>,
    /// The record to take back; the newest if not given
    record: Option<u64>,
    /// List the records and do nothing
    #[arg(long)]
    list: bool,
    /// Overwrite files that were edited since
    #[arg(long)]
    force: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// With --root, run the folder's own programs inside it (chroot, as root) instead of naming
    /// them
    #[arg(long, requires = "root")]
    chroot: bool,
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let root = root(arguments.root.as_deref())?;
    let host = Host::at(&root)?;
    let records = host.records()?;
    if arguments.list {
        records.iter().for_each(print);
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = match arguments.record {
        Some(number) => records
            .iter()
            .find(|record| record.number == number)
            .ok_or(change::Error::Unknown(number))?,
        None => records.last().ok_or(change::Error::Nothing)?,
    };
    print(chosen);
    if !arguments.yes && !confirmed("Take this back?")? {
        anyhow::bail!("not taken back");
    }
    let mut programs = Programs { root: &root, is_entered: arguments.chroot, left: vec![] };
    let record =
        host.rollback(Some(chosen.number), arguments.force, &mut |command| programs.run(command))?;
    say!("record {} is taken back", record.number);
    for command in programs.left {
        say!("run on the host itself: {}", clean(&command.join(" ")));
    }
    Ok(ExitCode::SUCCESS)
}

fn print(record: &Record) {
    say!("record {}", record.number);
    for done in &record.done {
        match done {
            Done::Write { path, before: Some(_), .. } => say!("  restores {}", clean(path)),
            Done::Write { path, before: None, .. } => say!("  removes {}", clean(path)),
            Done::Run { undo, .. } => say!("  runs {}", clean(&undo.join(" "))),
        }
    }
}

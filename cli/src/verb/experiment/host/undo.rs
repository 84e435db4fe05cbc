//! How changes are put back. What is written to the journal before a change is enough to take it
//! back in another process, on a host that has started again.

use super::options::Options;
use super::said::Said;
use crate::outcome::outcome;
use serde::{Deserialize, Serialize};
use std::process::Command;

/// One way back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Undo {
    /// A file of sysfs or procfs gets its text again.
    Write {
        /// Below the host's root.
        path: String,
        /// What it had.
        text: String,
    },
    /// A program with arguments.
    Run(Vec<String>),
    /// libvirt's description of a machine.
    Define {
        /// The machine.
        vm: String,
        /// Its description.
        xml: String,
    },
    /// Whether a machine runs.
    Running {
        /// The machine.
        vm: String,
        /// As it was found.
        is_running: bool,
    },
    /// A module with the parameters that it had.
    Module {
        /// The vendor's.
        module: String,
        /// `NAME=VALUE`.
        parameters: Vec<String>,
    },
}

impl Undo {
    pub fn carry_out(&self, options: &Options) -> Said<()> {
        match self {
            Self::Write { path, text } => write(options, path, text),
            Self::Run(words) => run(words).map(|_| ()),
            Self::Define { vm, xml } => super::manager::define(vm, xml),
            Self::Running { vm, is_running } => {
                // Whatever it was last started with, it starts again with what was put back.
                let manager = super::manager::of(options);
                manager.set_running(options, vm, false)?;
                manager.set_running(options, vm, *is_running)
            }
            Self::Module { module, parameters } => {
                super::module::reload(options, module, parameters)
            }
        }
    }

    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// sysfs takes a value in one write to the file that is there.
pub fn write(options: &Options, path: &str, text: &str) -> Said<()> {
    use std::io::Write;
    let file = options.file(path);
    let open = std::fs::File::options().write(true).truncate(true).open(&file);
    open.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| format!("{}: {error}", file.display()))
}

/// Runs a program to its end; what it wrote to standard output.
pub fn run(words: &[String]) -> Said<String> {
    let Some((program, arguments)) = words.split_first() else { return Err("no program".into()) };
    let output = outcome(Command::new(program).args(arguments))
        .map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}, {}", words.join(" "), output.status, said.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

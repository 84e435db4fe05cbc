//! A command of this machine, or of a folder that is a root, in a Linux guest.

use super::figure::Figure;
use super::kind::{Conditions, Workload};
use crate::host::image::root;
use crate::linux::console::mark;
use crate::linux::mounts;
use crate::linux::place::{GUEST_COMMAND, GUEST_COMMAND_LINE, GUEST_ROOT};
use crate::plan::{LinuxGuest, Needs};
use crate::program::which;
use crate::protocol::{Step, WINDOW_BEGINS, WINDOW_ENDS};
use anyhow::Context;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Instant;

/// Of the command in its guest.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A program with its arguments, which the shell's quotes do not reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    words: String,
    /// The folder that is the guest's root, and the bytes of its files.
    root: Option<(PathBuf, u64)>,
}

impl Command {
    pub(super) const NONE: Self = Self { words: String::new(), root: None };

    /// One of a folder that is the guest's root.
    pub(super) fn in_root(words: &str, root: &Path) -> anyhow::Result<Self> {
        let program = words.split_ascii_whitespace().next().unwrap_or_default();
        let bytes = root::bytes(root)?;
        anyhow::ensure!(
            root::which(root, program).is_some(),
            "{} has no program {program:?}: with --root, --workload is a command of that folder, such \
             as '/usr/bin/app --bench'",
            root.display()
        );
        Ok(Self { words: words.to_owned(), root: Some((root.to_owned(), bytes)) })
    }
}

impl FromStr for Command {
    /// The program that is none.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let program = text.split_ascii_whitespace().next().unwrap_or_default();
        let command = Self { words: text.to_owned(), root: None };
        which(program).map(|_| command).ok_or_else(|| program.to_owned())
    }
}

impl Workload for Command {
    fn name(&self) -> &'static str {
        "command"
    }

    fn summary(&self) -> &'static str {
        "a program of this machine in a Linux guest"
    }

    fn title(&self) -> String {
        self.words.clone()
    }

    fn needs(&self) -> Needs {
        let linux = LinuxGuest {
            command: Some(self.words.clone()),
            root: self.root.as_ref().map(|(root, _)| root.clone()),
            root_bytes: self.root.as_ref().map_or(0, |(_, bytes)| *bytes),
            ..LinuxGuest::default()
        };
        Needs { linux: Some(linux), ..Needs::default() }
    }

    fn steps(&self, conditions: &Conditions<'_>) -> Vec<Step> {
        let guest = conditions.linux(&format!("{GUEST_COMMAND_LINE}{}", self.name()));
        let mut step = conditions.step(self.name(), "x2APIC", true, guest);
        // Packed as it is brought; and Linux gives half of what is left to what it unpacks.
        let room = self.root.as_ref().map_or(0, |(_, bytes)| bytes.next_multiple_of(1 << 20) * 3);
        step.configuration.memory += room;
        vec![step]
    }

    /// The command came with the initial RAM disk: one argument a line.
    fn work(&self, _words: &str) -> anyhow::Result<()> {
        let text = std::fs::read_to_string(GUEST_COMMAND).unwrap_or_default();
        let mut words = text.lines();
        let Some(program) = words.next() else { return Ok(()) };
        if Path::new(GUEST_ROOT).is_dir() {
            mounts::in_root(GUEST_ROOT);
            rustix::process::chroot(GUEST_ROOT).context("the folder that is to be the root")?;
            std::env::set_current_dir("/")?;
        }
        mark(WINDOW_BEGINS);
        let start = Instant::now();
        let mut command = std::process::Command::new(program);
        let status = command.args(words).env("PATH", PATH).status();
        let seconds = start.elapsed().as_secs_f64();
        mark(WINDOW_ENDS);
        // What it wrote may end within a line.
        say!("");
        match status {
            Ok(status) => say!(
                "{{\"record\":\"command\",\"status\":{},\"seconds\":{seconds:.6}}}",
                status.code().unwrap_or(-1)
            ),
            Err(error) => {
                say!("{{\"record\":\"failure\",\"cannot start\":\"{program}: {error}\"}}")
            }
        }
        Ok(())
    }

    fn figure(&self, record: &Json) -> Option<Figure> {
        (record["record"].as_str() == Some("command")).then_some(())?;
        let value = record["seconds"].as_f64()?;
        Some(Figure {
            name: "command".into(),
            unit: "seconds",
            value,
            samples: 1,
            mean: None,
            usual: None,
        })
    }
}

//! A command of this machine, in a Linux guest.

use super::figure::Figure;
use super::kind::{Conditions, Workload};
use crate::linux::console::mark;
use crate::linux::place::{GUEST_COMMAND, GUEST_COMMAND_LINE};
use crate::plan::{LinuxGuest, Needs};
use crate::program::which;
use crate::protocol::{Step, WINDOW_BEGINS, WINDOW_ENDS};
use serde_json::Value as Json;
use std::str::FromStr;
use std::time::Instant;

/// A program with its arguments, which the shell's quotes do not reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command(String);

impl Command {
    pub(super) const NONE: Self = Self(String::new());
}

impl FromStr for Command {
    /// The program that is none.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let program = text.split_ascii_whitespace().next().unwrap_or_default();
        which(program).map(|_| Self(text.to_owned())).ok_or_else(|| program.to_owned())
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
        self.0.clone()
    }

    fn needs(&self) -> Needs {
        let linux = LinuxGuest { command: Some(self.0.clone()), ..LinuxGuest::default() };
        Needs { linux: Some(linux), ..Needs::default() }
    }

    fn steps(&self, conditions: &Conditions<'_>) -> Vec<Step> {
        let guest = conditions.linux(&format!("{GUEST_COMMAND_LINE}{}", self.name()));
        vec![conditions.step(self.name(), "x2APIC", true, guest)]
    }

    /// The command came with the initial RAM disk: one argument a line.
    fn work(&self, _words: &str) -> anyhow::Result<()> {
        let text = std::fs::read_to_string(GUEST_COMMAND).unwrap_or_default();
        let mut words = text.lines();
        let Some(program) = words.next() else { return Ok(()) };
        mark(WINDOW_BEGINS);
        let start = Instant::now();
        let mut command = std::process::Command::new(program);
        let status = command.args(words).env("PATH", "/bin:/usr/bin").status();
        let seconds = start.elapsed().as_secs_f64();
        mark(WINDOW_ENDS);
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
        Some(Figure { name: "command".into(), unit: "seconds", value, samples: 1, mean: None })
    }
}

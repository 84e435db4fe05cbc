//! `--snapshot-on EVENT FILE`: when to save the machine, and how far to run until then.

use super::size::parse_duration;
use crate::sandbox::Sandbox;
use crate::status::Usage;
use anyhow::Context;
use arch::time::Picoseconds;
use board::snapshot::ConfigurationDigest;
use board::{Limits, Machine};
use change::{Like, Output};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Longest text that is looked for on the console.
const LONGEST_TEXT: usize = 4096;
/// No instruction completes in less virtual time: 8 a cycle at 5 GHz.
const SHORTEST_INSTRUCTION: u64 = 25;
/// So near to a number of instructions, the machine is saved at the next block's end.
const NEAR: Picoseconds = Picoseconds::from_nanoseconds(1);

#[derive(clap::Args)]
// The verb that takes these in has a group of this name.
#[group(skip)]
pub struct Arguments {
    /// Save the machine to FILE when EVENT happens, and continue: console:TEXT (the first serial
    /// port shows it), time:DURATION, instructions:N, port:PORT[=VALUE] (a write); may be repeated
    #[arg(long, num_args = 2, value_names = ["EVENT", "FILE"])]
    snapshot_on: Vec<String>,
}

impl Arguments {
    /// Whether the machine is to be saved at all.
    pub fn asks_for_any(&self) -> bool {
        !self.snapshot_on.is_empty()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Trigger {
    Console(Vec<u8>),
    Time(Picoseconds),
    Instructions(u64),
    Port { port: u16, value: Option<u32> },
}

fn parse_trigger(text: &str) -> Result<Trigger, String> {
    let wrong = || {
        format!("{text:?} must be console:TEXT, time:DURATION, instructions:N or port:PORT[=VALUE]")
    };
    let (kind, value) = text.split_once(':').ok_or_else(wrong)?;
    match kind {
        "console" if !value.is_empty() && value.len() <= LONGEST_TEXT => {
            Ok(Trigger::Console(value.as_bytes().to_vec()))
        }
        "time" => Ok(Trigger::Time(parse_duration(value)?)),
        "instructions" => value.parse().map(Trigger::Instructions).map_err(|_| wrong()),
        "port" => {
            let (port, value) = match value.split_once('=') {
                Some((port, value)) => (port, Some(value)),
                None => (value, None),
            };
            let port = number(port).and_then(|port| port.try_into().ok()).ok_or_else(wrong)?;
            let value = match value {
                Some(value) => Some(number(value).ok_or_else(wrong)?),
                None => None,
            };
            Ok(Trigger::Port { port, value })
        }
        _ => Err(wrong()),
    }
}

/// A number in decimal, or in hexadecimal after 0x.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// One of them.
struct Waiting {
    trigger: Trigger,
    /// As it was given.
    event: String,
    path: PathBuf,
    /// Open already.
    output: Output,
}

/// What is still to be saved, in the order of the command line; each waits for the one before.
pub struct Snapshots {
    waiting: std::collections::VecDeque<Waiting>,
    /// The end of what the console showed.
    shown: Vec<u8>,
    digest: ConfigurationDigest,
}

impl Snapshots {
    /// Opens all files, of a machine that is yet to be built.
    pub fn open(arguments: &Arguments, sandbox: &mut Sandbox) -> anyhow::Result<Self> {
        let mut waiting = std::collections::VecDeque::new();
        for pair in arguments.snapshot_on.chunks(2) {
            let [event, file] = pair else { continue };
            let trigger = parse_trigger(event).map_err(anyhow::Error::msg).map_err(Usage::of)?;
            let path = PathBuf::from(file);
            let output = sandbox.output(&path)?;
            waiting.push_back(Waiting { trigger, event: event.clone(), path, output });
        }
        Ok(Self { waiting, shown: Vec::new(), digest: ConfigurationDigest(0) })
    }

    /// The machine's configuration.
    pub fn of(self, digest: ConfigurationDigest) -> Self {
        Self { digest, ..self }
    }

    /// Tells the machine what to stop for.
    pub fn arm(&self, machine: &mut Machine) {
        let next = self.waiting.front().map(|waiting| &waiting.trigger);
        machine.await_output(matches!(next, Some(Trigger::Console(_))));
        if let Some(Trigger::Port { port, value }) = next {
            machine.state.wiring.watch_port(*port, *value);
        }
    }

    /// Shortens a stretch of the run so that it does not pass the event.
    pub fn limit(&self, machine: &Machine, limits: Limits) -> Limits {
        let until = match self.waiting.front().map(|waiting| &waiting.trigger) {
            Some(Trigger::Time(at)) => *at,
            Some(Trigger::Instructions(count)) => {
                let left = count.saturating_sub(machine.instructions());
                let per_cpu = left / machine.state.cpus.len().max(1) as u64;
                let shortest = Picoseconds(per_cpu.saturating_mul(SHORTEST_INSTRUCTION));
                machine.state.now.saturating_add(shortest.max(NEAR))
            }
            _ => return limits,
        };
        Limits { until: limits.until.min(until), ..limits }
    }

    /// Looks at what happened in a stretch; saves if it was the event.
    pub fn look(&mut self, machine: &mut Machine, console: &[u8]) -> anyhow::Result<()> {
        let Some(Waiting { trigger, .. }) = self.waiting.front() else { return Ok(()) };
        let has_happened = match trigger {
            Trigger::Console(text) => {
                self.shown.extend(console);
                let is_there = self.shown.windows(text.len()).any(|window| window == text);
                let kept = self.shown.len().min(text.len() - 1);
                self.shown.drain(..self.shown.len() - kept);
                is_there
            }
            // A machine in which nothing happens any more has no moments either.
            Trigger::Time(at) => machine.outcome().is_none() && machine.state.now >= *at,
            Trigger::Instructions(count) => machine.instructions() >= *count,
            Trigger::Port { .. } => machine.state.wiring.take_port_hit(),
        };
        if has_happened && let Some(Waiting { path, output, .. }) = self.waiting.pop_front() {
            write(machine, &path, output, self.digest)?;
            self.shown.clear();
            self.arm(machine);
        }
        Ok(())
    }

    /// Events that did not happen, and the files that were to be written.
    pub fn missed(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.waiting.iter().map(|waiting| (waiting.event.as_str(), waiting.path.as_path()))
    }
}

fn write(
    machine: &Machine,
    path: &Path,
    output: Output,
    digest: ConfigurationDigest,
) -> anyhow::Result<()> {
    let name = path.display().to_string();
    let mut output = BufWriter::new(output);
    machine.save(&name, &mut output, digest)?;
    let output = output.into_inner().map_err(|error| error.into_error());
    output.with_context(|| format!("cannot write {name}"))?.finish(Like::Umask)?;
    remark!(
        "avicenna: saved {name} at {:.6} s virtual, {} instructions, hash {}",
        machine.state.now.0 as f64 / 1e12,
        machine.instructions(),
        machine.state.wiring.recorder.hash
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_named_by_kind_and_value() {
        for (text, expected) in [
            ("console:login: ", Trigger::Console(b"login: ".to_vec())),
            ("time:1.5s", Trigger::Time(Picoseconds(1_500_000_000_000))),
            ("instructions:1000", Trigger::Instructions(1000)),
            ("port:0x80", Trigger::Port { port: 0x80, value: None }),
            ("port:244=7", Trigger::Port { port: 0xF4, value: Some(7) }),
        ] {
            assert_eq!(parse_trigger(text), Ok(expected), "{text}");
        }
        for text in
            ["", "console:", "time:soon", "instructions:-1", "port:70000", "port:1=x", "x:1"]
        {
            assert!(parse_trigger(text).is_err(), "{text}");
        }
    }
}

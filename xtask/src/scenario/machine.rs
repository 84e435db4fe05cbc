//! `avicenna machine run`, and what it said.

use super::check::Checks;
use super::stage::Stop;
use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Seconds of this machine after which a run is ended.
const LIMIT: &str = "3600";

/// A run that has ended.
#[derive(Debug)]
pub(super) struct Said {
    /// Console, without carriage returns.
    pub(super) console: String,
    /// The program's own lines.
    pub(super) program: String,
    pub(super) is_powered_off: bool,
}

/// A command with options, to be given a kernel.
pub(super) fn machine(program: &Path, cpu: &str, cpus: &str, memory: &str) -> Command {
    let mut command = Command::new("timeout");
    command.arg(LIMIT).arg(program).args(["machine", "run"]);
    command.args(["--cpu", cpu, "--cpus", cpus, "--memory", memory]);
    command
}

/// Runs it to its end and shows the console meanwhile.
pub(super) fn run(command: &mut Command) -> Result<Said> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start timeout")?;
    let errors = child.stderr.take().context("no standard error")?;
    let errors = std::thread::spawn(move || std::io::read_to_string(errors));
    let output = child.stdout.take().context("no standard output")?;
    let mut console = String::new();
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).replace('\r', "");
        println!("{line}");
        console += &line;
        console.push('\n');
    }
    let is_powered_off = child.wait()?.success();
    let errors = errors.join().map_err(|_| anyhow::anyhow!("standard error was not read"))??;
    let own = |line: &&str| line.starts_with("avicenna: ");
    errors.lines().filter(own).for_each(|line| println!("{line}"));
    Ok(Said { console, program: errors, is_powered_off })
}

impl Said {
    /// Whether a line begins so.
    pub(super) fn begins(&self, start: &str) -> bool {
        self.after(start).is_some()
    }

    /// Whether there is this line.
    pub(super) fn has(&self, line: &str) -> bool {
        self.after(line) == Some("")
    }

    pub(super) fn contains(&self, part: &str) -> bool {
        self.console.contains(part)
    }

    /// The first line that begins so, and goes on.
    pub(super) fn after(&self, start: &str) -> Option<&str> {
        self.console.lines().find_map(|line| line.strip_prefix(start))
    }

    pub(super) fn all_after<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a str> {
        self.console.lines().filter_map(move |line| line.strip_prefix(start))
    }

    /// The trace hash, as the closing line has it.
    pub(super) fn hash(&self) -> Option<&str> {
        self.program.split("hash ").nth(1)?.split(|c: char| !c.is_ascii_hexdigit()).next()
    }

    /// Neither kernel warned, and the run ended as it should.
    pub(super) fn ends_well(&self, checks: &mut Checks) {
        let complaints = ["WARNING", "BUG:"];
        checks.hold("no kernel warned", !complaints.iter().any(|word| self.contains(word)));
        checks.hold("power-off ends the run", self.is_powered_off);
    }
}

/// The first number of a text.
pub(super) fn number(text: &str) -> Option<u64> {
    text.split(|c: char| !c.is_ascii_digit()).find(|part| !part.is_empty())?.parse().ok()
}

/// Runs a tool of this machine; what it wrote to standard output.
pub(super) fn tool<S: AsRef<OsStr>>(
    name: &str,
    arguments: impl IntoIterator<Item = S>,
) -> Result<Vec<u8>> {
    let output = Command::new(name)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{name}: {}: {said}", output.status);
    Ok(output.stdout)
}

/// Ends a scenario where something that it needs is not installed.
pub(super) fn need(tools: &[&str]) -> Result<(), Stop> {
    let is_missing = |tool: &&&str| {
        let command = Command::new("which").arg(tool).stdout(Stdio::null()).status();
        !command.is_ok_and(|status| status.success())
    };
    match tools.iter().find(is_missing) {
        Some(tool) => Err(Stop::Skipped(format!("{tool} is not installed"))),
        None => Ok(()),
    }
}

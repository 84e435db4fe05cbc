//! Interrupts and terminals.

use super::super::check::Checks;
use super::command::ends_when_asked;
use super::session::Lab;
use anyhow::{Context, Result, bail, ensure};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// For each thing that is waited for.
const PATIENCE: Duration = Duration::from_secs(300);

pub(super) fn check(lab: &Lab<'_>, checks: &mut Checks) {
    for signal in ["INT", "TERM"] {
        checks.succeed(format!("SIG{signal} ends a run"), ends_when_asked(lab, signal));
    }
    checks.succeed("lab shell controls its terminal", has_a_terminal(lab));
}

/// In the shell Ctrl-C ends what runs, and the shell's exit status is the lab's.
fn has_a_terminal(lab: &Lab<'_>) -> Result<()> {
    let mut shell = Terminal::start(lab)?;
    let result = shell.converse();
    if result.is_err() {
        let _ = shell.child.kill();
    }
    let status = shell.child.wait()?;
    result?;
    ensure!(status.code() == Some(5), "{status}");
    Ok(())
}

/// `lab shell` on a terminal that script(1) makes.
struct Terminal {
    child: Child,
    input: std::process::ChildStdin,
    output: Receiver<Vec<u8>>,
    seen: Vec<u8>,
}

impl Terminal {
    fn start(lab: &Lab<'_>) -> Result<Self> {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
        let program = quoted(&lab.program.display().to_string());
        let command = format!("exec {program} lab shell --kernel {}", quoted(&lab.kernel));
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", &command, "/dev/null"]);
        script.env("XDG_CACHE_HOME", lab.work.join("cache"));
        let script = script.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = script.spawn().context("cannot start script")?;
        let input = child.stdin.take().context("no standard input")?;
        let mut from = child.stdout.take().context("no standard output")?;
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, input, output, seen: Vec::new() })
    }

    fn converse(&mut self) -> Result<()> {
        self.wait_for("exit ends the lab")?;
        // What is echoed is not what is waited for.
        self.type_in("echo be\"\"gun; sleep 1000\r")?;
        self.wait_for("begun")?;
        std::thread::sleep(Duration::from_secs(2));
        self.type_in("\x03")?;
        self.type_in("echo st\"\"ill here\r")?;
        self.wait_for("still here")?;
        self.type_in("exit 5\r")
    }

    fn type_in(&mut self, text: &str) -> Result<()> {
        self.input.write_all(text.as_bytes())?;
        Ok(self.input.flush()?)
    }

    fn wait_for(&mut self, text: &str) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let found = self.seen.windows(text.len()).position(|window| window == text.as_bytes());
            if let Some(at) = found {
                self.seen.drain(..at + text.len());
                return Ok(());
            }
            let left = end.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.seen.extend(bytes),
                Err(_) => bail!("no {text:?} in {:?}", String::from_utf8_lossy(&self.seen)),
            }
        }
    }
}

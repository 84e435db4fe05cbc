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
        let words = ["--no-snapshot", "--workload", "threads"];
        let ended = ends_when_asked(lab, signal, &words, Duration::from_secs(1));
        checks.succeed(format!("SIG{signal} ends a run"), ended);
    }
    let words = ["--jobs", "3", "--seeds", "500"];
    let ended = ends_when_asked(lab, "INT", &words, Duration::from_secs(4));
    checks.succeed("SIGINT ends all parts of a run", ended);
    checks.succeed("lab shell controls its terminal", has_a_terminal(lab));
    checks.succeed("a command has a terminal", command_has_a_terminal(lab));
}

/// In the shell Ctrl-C ends what runs, and the shell's exit status is the lab's.
fn has_a_terminal(lab: &Lab<'_>) -> Result<()> {
    let status = Terminal::start(lab, &["shell"], &[])?.end_with(Terminal::converse)?;
    ensure!(status == Some(5), "{status:?}");
    Ok(())
}

/// It has a size, takes lines, and Ctrl-C ends it as a shell counts that.
fn command_has_a_terminal(lab: &Lab<'_>) -> Result<()> {
    let script = "stty size; read word; echo got $word; cat";
    let terminal = Terminal::start(
        lab,
        &["exec", "-t", "--root", "/bin/stty=/bin/stty"],
        &["--", "sh", "-c", script],
    )?;
    let status = terminal.end_with(|terminal| {
        terminal.wait_for("24 80")?;
        terminal.type_in("a line\r")?;
        terminal.wait_for("got a line")?;
        terminal.type_in("\x03")
    })?;
    ensure!(status == Some(128 + 2), "{status:?}");
    Ok(())
}

/// A verb of the lab on a terminal that script(1) makes.
struct Terminal {
    child: Child,
    input: std::process::ChildStdin,
    output: Receiver<Vec<u8>>,
    seen: Vec<u8>,
}

impl Terminal {
    fn start(lab: &Lab<'_>, verb: &[&str], then: &[&str]) -> Result<Self> {
        let quoted = |text: &&str| format!("'{}'", text.replace('\'', "'\\''"));
        let program = lab.program.display().to_string();
        let words = [&[&program, "lab"], verb, &["--kernel", &lab.kernel], then].concat();
        let words: Vec<String> = words.iter().map(quoted).collect();
        let command = format!("exec {}", words.join(" "));
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

    /// The exit status after a conversation.
    fn end_with(mut self, converse: impl FnOnce(&mut Self) -> Result<()>) -> Result<Option<i32>> {
        let result = converse(&mut self);
        if result.is_err() {
            let _ = self.child.kill();
        }
        let status = self.child.wait()?;
        result?;
        Ok(status.code())
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

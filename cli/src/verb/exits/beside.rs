//! A command that runs while exits are watched, as in `perf record -- COMMAND`.
#![cfg_attr(
    not(any(feature = "terminal", test)),
    expect(dead_code, unused_imports, reason = "only the live view keeps what a command prints")
)]

use anyhow::Context as _;
use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// When watching ends: at a time, on Ctrl-C, or when the command that it is about has ended.
pub struct End<'a> {
    at: Instant,
    stop: &'a AtomicBool,
    words: &'a [String],
    command: Option<Child>,
    status: Option<ExitStatus>,
    /// What the command printed, where it was kept.
    kept: Option<File>,
}

/// Where goes what the command prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// To where ours goes.
    Ours,
    /// To standard error: standard output is for the recording.
    StandardError,
    /// Into a file, to be printed later: the terminal is taken. There is nothing to read from it.
    Kept,
}

/// Bytes at the end of what was printed that are looked at for its last lines.
const LAST_BYTES: u64 = 16 << 10;

impl<'a> End<'a> {
    /// `seconds` from now, or never by itself; `words` are a command or nothing.
    pub fn new(seconds: Option<f64>, words: &'a [String], stop: &'a AtomicBool) -> Self {
        let seconds = seconds.unwrap_or(f64::from(u32::MAX)).clamp(0.0, 1e9);
        let at = Instant::now() + Duration::from_secs_f64(seconds);
        Self { at, stop, words, command: None, status: None, kept: None }
    }

    /// Starts the command, once; exits are watched from before.
    pub fn begin(&mut self, output: Output) -> anyhow::Result<()> {
        let ([program, arguments @ ..], None) = (self.words, &self.command) else { return Ok(()) };
        let mut command = Command::new(program);
        command.args(arguments);
        match output {
            Output::Ours => {}
            Output::StandardError => {
                command.stdout(Stdio::from(std::io::stderr().as_fd().try_clone_to_owned()?));
            }
            Output::Kept => {
                let file = tempfile::tempfile().context("what the command prints is not kept")?;
                command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file.try_clone()?);
                self.kept = Some(file);
            }
        }
        let child = command.spawn().with_context(|| format!("cannot start {program}"))?;
        self.command = Some(child);
        Ok(())
    }

    /// The command's name and arguments.
    #[cfg(feature = "terminal")]
    pub fn command(&self) -> Option<String> {
        self.command.as_ref().map(|_| self.words.join(" "))
    }

    /// The last lines of what was kept, as plain text.
    #[cfg(any(feature = "terminal", test))]
    pub fn output(&self, most: usize) -> Vec<String> {
        let Some(file) = &self.kept else { return Vec::new() };
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        let from = length.saturating_sub(LAST_BYTES);
        let mut bytes = vec![0; (length - from) as usize];
        if file.read_exact_at(&mut bytes, from).is_err() {
            return Vec::new();
        }
        let text = String::from_utf8_lossy(&bytes);
        let plain = |line: &str| line.chars().filter(|letter| !letter.is_control()).collect();
        let lines: Vec<String> = text.lines().map(plain).collect();
        lines[lines.len().saturating_sub(most)..].to_vec()
    }

    /// Prints all that was kept.
    #[cfg(any(feature = "terminal", test))]
    pub fn print_kept(&mut self, out: &mut impl Write) -> std::io::Result<()> {
        let Some(file) = &mut self.kept else { return Ok(()) };
        // The command, should it run on, writes where this ends.
        file.seek(SeekFrom::Start(0))?;
        std::io::copy(file, out).map(|_| ())
    }

    pub fn has_come(&mut self) -> bool {
        if let (Some(command), None) = (&mut self.command, self.status) {
            self.status = command.try_wait().ok().flatten();
        }
        self.status.is_some() || self.stop.load(Ordering::Relaxed) || Instant::now() >= self.at
    }

    /// Sleeps, though not beyond the end.
    pub fn sleep(&mut self, time: Duration) {
        const NAP: Duration = Duration::from_millis(20);
        let until = (Instant::now() + time).min(self.at);
        while !self.has_come() {
            match until.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => std::thread::sleep(left.min(NAP)),
                _ => return,
            }
        }
    }

    /// The command's exit status, as shells have it; success without a command. One that still
    /// runs is left alone.
    pub fn status(&self) -> ExitCode {
        let code = self.status.map_or(0, |status| status.code().unwrap_or(i32::from(u8::MAX)));
        ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_prints_is_kept_whole_and_its_end_can_be_looked_at() {
        let stop = AtomicBool::new(false);
        let script = "seq 1 5000; printf 'a\\033[31mb' >&2; cat; exit 7";
        let words = ["sh", "-c", script].map(str::to_owned);
        let mut end = End::new(Some(20.0), &words, &stop);
        end.begin(Output::Kept).expect("there is a shell");
        while !end.has_come() {
            end.sleep(Duration::from_millis(5));
        }
        assert_eq!(end.output(2), ["5000", "a[31mb"]);
        let mut all = Vec::new();
        end.print_kept(&mut all).expect("memory");
        assert!(all.starts_with(b"1\n2\n3\n") && all.ends_with(b"5000\na\x1b[31mb"));
        assert_eq!(format!("{:?}", end.status()), format!("{:?}", ExitCode::from(7)));
    }
}

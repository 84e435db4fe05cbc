//! A command that runs while exits are watched, as in `perf record -- COMMAND`.

use anyhow::Context as _;
use std::os::fd::AsFd as _;
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
}

impl<'a> End<'a> {
    /// `seconds` from now, or never by itself; `words` are a command or nothing.
    pub fn new(seconds: Option<f64>, words: &'a [String], stop: &'a AtomicBool) -> Self {
        let seconds = seconds.unwrap_or(f64::from(u32::MAX)).clamp(0.0, 1e9);
        let at = Instant::now() + Duration::from_secs_f64(seconds);
        Self { at, stop, words, command: None, status: None }
    }

    /// Starts the command, once; exits are watched from before. What it prints goes to standard
    /// error where standard output is wanted for the recording.
    pub fn begin(&mut self, is_stdout_taken: bool) -> anyhow::Result<()> {
        let ([program, arguments @ ..], None) = (self.words, &self.command) else { return Ok(()) };
        let mut command = Command::new(program);
        command.args(arguments);
        if is_stdout_taken {
            command.stdout(Stdio::from(std::io::stderr().as_fd().try_clone_to_owned()?));
        }
        let child = command.spawn().with_context(|| format!("cannot start {program}"))?;
        self.command = Some(child);
        Ok(())
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

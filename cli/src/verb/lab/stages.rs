//! How a run goes, on standard error: on a terminal one line that changes, elsewhere a line now and
//! then, so that the reader of a log sees that something happens.

use crate::status::Status;
use crate::terminal;
use lab::drive::expected::Expected;
use lab::protocol::Stream;
use lab::watch::Told;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Between two lines of a log.
const LOG_PAUSE: Duration = Duration::from_secs(5);
/// Between two looks of a terminal's line.
const TERMINAL_PAUSE: Duration = Duration::from_millis(200);

/// Set when the user wants the run to stop.
pub(super) static INTERRUPT: AtomicBool = AtomicBool::new(false);

pub(super) struct Stages {
    is_terminal: bool,
    expected: Expected,
    stage: String,
    line: String,
    began: Instant,
    shown: Instant,
    is_line_shown: bool,
    /// What a command writes is for the terminal that it has.
    has_terminal: bool,
}

impl Stages {
    pub(super) fn open() -> Self {
        let now = Instant::now();
        Self {
            is_terminal: std::io::stderr().is_terminal(),
            expected: Expected::load(),
            stage: String::new(),
            line: String::new(),
            began: now,
            shown: now,
            is_line_shown: false,
            has_terminal: false,
        }
    }

    /// Whether the command's terminal is this one: then what it writes is passed on as it is, and
    /// nothing else is shown from then on.
    pub(super) fn belong_to_a_terminal(&mut self, is_one: bool) {
        self.has_terminal = is_one;
    }

    pub(super) fn tell(&mut self, told: Told<'_>) {
        match told {
            Told::Stage(name) => {
                self.end_stage();
                (self.stage, self.line) = (name.to_owned(), String::new());
                self.began = Instant::now();
                self.show(Duration::ZERO);
            }
            Told::Line(text) => {
                text.clone_into(&mut self.line);
                self.show(TERMINAL_PAUSE);
            }
            Told::Wrote(stream, text) => self.pass_on(stream, text),
            Told::Tick => self.show(TERMINAL_PAUSE),
        }
    }

    /// What a command writes goes where it would go without the lab. A reader that has gone ends
    /// nothing.
    fn pass_on(&mut self, stream: Stream, text: &str) {
        self.clear();
        // The line of the stage waits until the command has ended one of its own.
        self.shown = Instant::now();
        match stream {
            Stream::Output if self.has_terminal => {
                // How long it goes on is for who sits there to say.
                self.stage.clear();
                terminal::program(text.as_bytes());
            }
            Stream::Output if std::io::stdout().is_terminal() => {
                terminal::print(text);
            }
            Stream::Output => {
                terminal::program(text.as_bytes());
            }
            Stream::Errors => terminal::ask(text),
        }
    }

    /// The run is over and was good: what it took is what the next may take.
    pub(super) fn close(&mut self) {
        self.end_stage();
        self.clear();
        self.expected.save();
    }

    fn end_stage(&mut self) {
        if !self.stage.is_empty() {
            self.expected.learn(&self.stage, self.began.elapsed());
        }
        self.stage.clear();
    }

    fn show(&mut self, terminal_pause: Duration) {
        let pause = if self.is_terminal { terminal_pause } else { LOG_PAUSE };
        if self.stage.is_empty() || self.shown.elapsed() < pause {
            return;
        }
        self.shown = Instant::now();
        let expected = self.expected.of(&self.stage);
        let text = line(&self.stage, self.began.elapsed(), expected, &self.line);
        let text = terminal::clean(&text);
        let mut out = std::io::stderr();
        let _ = if self.is_terminal {
            self.is_line_shown = true;
            let text: String = text.chars().take(terminal::columns_of_stderr() - 1).collect();
            write!(out, "\r\x1b[K{text}").and_then(|()| out.flush())
        } else {
            let text: String = text.chars().take(terminal::COLUMNS).collect();
            writeln!(out, "avicenna: {text}")
        };
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_line_shown) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Stages {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Elapsed and expected time come first: what is cut off is the least important.
fn line(stage: &str, elapsed: Duration, expected: Option<Duration>, last: &str) -> String {
    let expected =
        expected.map_or(String::new(), |time| format!(" of about {}", time.as_secs().max(1)));
    let last = if last.is_empty() { String::new() } else { format!(": {last}") };
    format!("[{}{expected} s] {stage}{last}", elapsed.as_secs())
}

/// The exit status of a command on the emulated host.
pub(super) fn status_of(status: i32) -> ExitCode {
    ExitCode::from(u8::try_from(status).unwrap_or(Status::CannotTell.code()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_says_how_long_it_takes_and_may_take() {
        let seconds = Duration::from_secs;
        assert_eq!(line("booting", seconds(3), Some(seconds(11)), ""), "[3 of about 11 s] booting");
        assert_eq!(line("booting", seconds(3), None, "text"), "[3 s] booting: text");
    }
}

//! Exit statuses: one table for all verbs.
//!
//! `machine run` adds what its guest says: odd numbers.

use rules::Answer;
use std::fmt::{Display, Formatter, Result};
use std::process::ExitCode;

/// How a verb ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// All is well.
    Clean = 0,
    /// Something was found.
    Findings = 1,
    /// Usage, as the parser of arguments has it, and values that only a closer look finds wrong.
    Usage = 2,
    /// The answer could not be found: missing privileges, unreadable input, a host that failed.
    CannotTell = 3,
    /// `lab run`: the result is of another hypervisor than the one that was meant.
    Instead = 4,
    /// `machine run`: a processor shut down after a triple fault.
    TripleFault = 64,
    /// `machine run`: `--until-virtual` was reached.
    TimeLimit = 66,
    /// `machine run`: `--max-instructions` was reached.
    InstructionLimit = 68,
    /// `machine run`: every processor waits for ever.
    Deadlock = 72,
    /// Ctrl-C, or what stands for it at a console: 128 and the signal's number, as shells have it.
    Interrupted = 130,
}

impl Status {
    /// As the system has it.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status.code())
    }
}

impl From<lab::result::Ending> for Status {
    fn from(ending: lab::result::Ending) -> Self {
        match ending {
            lab::result::Ending::Good => Self::Clean,
            lab::result::Ending::Bad => Self::Findings,
            lab::result::Ending::Instead => Self::Instead,
        }
    }
}

impl From<Answer> for Status {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Yes => Self::Clean,
            Answer::No => Self::Findings,
            Answer::Unknown => Self::CannotTell,
        }
    }
}

/// Marks an error as one of usage.
#[derive(Debug)]
pub struct Usage(anyhow::Error);

impl Usage {
    /// For `map_err`.
    pub fn of(error: impl Into<anyhow::Error>) -> anyhow::Error {
        Self(error.into()).into()
    }
}

impl Display for Usage {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(&told(&self.0))
    }
}

impl std::error::Error for Usage {}

/// An error with its causes; a cause that its effect has named already is not repeated.
pub fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text += if text.is_empty() { "" } else { ": " };
            text += &cause;
        }
    }
    text
}

/// The exit status of a verb that failed.
pub fn of_error(error: &anyhow::Error) -> Status {
    if error.is::<Usage>() {
        Status::Usage
    } else if matches!(error.downcast_ref(), Some(lab::watch::Halt::Interrupted)) {
        Status::Interrupted
    } else {
        Status::CannotTell
    }
}

/// The exit status where the result did not arrive: nobody can know it, unless worse happened.
pub fn without_result(status: ExitCode) -> ExitCode {
    match [Status::Clean, Status::Findings].map(ExitCode::from).contains(&status) {
        true => Status::CannotTell.into(),
        false => status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};

    #[test]
    fn the_screen_of_the_lab_names_the_status_that_the_program_ends_with() {
        use lab::result::Ending;
        for ending in [Ending::Good, Ending::Bad, Ending::Instead] {
            assert_eq!(Status::from(ending).code(), ending.status());
        }
    }

    #[test]
    fn a_cause_that_was_named_is_not_repeated() {
        let missing = || std::io::Error::other("no such file");
        let rows = [
            (
                anyhow!(missing()).context("cannot read x: no such file"),
                "cannot read x: no such file",
            ),
            (anyhow!(missing()).context("cannot read x"), "cannot read x: no such file"),
            (anyhow!("alone"), "alone"),
        ];
        for (error, expected) in rows {
            assert_eq!(told(&error), expected);
        }
    }

    #[test]
    fn an_error_of_usage_stays_one_with_context_and_is_said_once() {
        let usage = Usage::of(anyhow!("inner").context("outer"));
        assert_eq!(format!("{usage:#}"), "outer: inner");
        assert_eq!(of_error(&usage), Status::Usage);
        let wrapped = Err::<(), _>(usage).context("around").expect_err("an error");
        assert_eq!(of_error(&wrapped), Status::Usage);
        assert_eq!(of_error(&anyhow!("other")), Status::CannotTell);
        let halt = anyhow::Error::from(lab::watch::Halt::Interrupted).context("somewhere");
        assert_eq!(of_error(&halt), Status::Interrupted);
    }
}

//! Exit statuses: one table for all verbs.
//!
//! `lab run` adds 4, of a result that has another hypervisor than the one that was meant.
//! `machine run` adds to it what its guest says (odd numbers) and how a run ended (64 to 72).

use std::fmt::{Display, Formatter, Result};

/// All is well, or something was found.
pub const CLEAN: u8 = 0;
pub const FINDINGS: u8 = 1;
/// Usage, as the parser of arguments has it, and values that only a closer look finds wrong.
pub const USAGE: u8 = 2;
/// The answer could not be found: missing privileges, unreadable input, a host that failed.
pub const CANNOT_TELL: u8 = 3;
/// Ctrl-C, or what stands for it at a console: 128 and the signal's number, as shells have it.
pub const INTERRUPTED: u8 = 130;

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
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for Usage {}

/// The exit status of a verb that failed.
pub fn of_error(error: &anyhow::Error) -> u8 {
    if error.is::<Usage>() {
        USAGE
    } else if matches!(error.downcast_ref(), Some(lab::watch::Halt::Interrupted)) {
        INTERRUPTED
    } else {
        CANNOT_TELL
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};

    #[test]
    fn an_error_of_usage_stays_one_with_context_and_is_said_once() {
        let usage = Usage::of(anyhow!("inner").context("outer"));
        assert_eq!(format!("{usage:#}"), "outer: inner");
        assert_eq!(of_error(&usage), USAGE);
        let wrapped = Err::<(), _>(usage).context("around").expect_err("an error");
        assert_eq!(of_error(&wrapped), USAGE);
        assert_eq!(of_error(&anyhow!("other")), CANNOT_TELL);
        let halt = anyhow::Error::from(lab::watch::Halt::Interrupted).context("somewhere");
        assert_eq!(of_error(&halt), INTERRUPTED);
    }
}

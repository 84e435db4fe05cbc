//! The verbs. Each parses its arguments, calls a library and prints; nothing is decided here.
//!
//! Exit status of every verb: 0 clean, 1 findings, 2 usage, 3 could not tell, 130 interrupted.

pub mod bench;
pub mod check;
pub mod enable;
pub mod exits;
pub mod experiment;
mod format;
pub mod generate;
pub mod lab;
pub mod lint;
pub mod machine;
mod metrics;
pub mod rollback;
pub mod snapshot;
mod source;
pub mod why;

pub use crate::status::CANNOT_TELL;
use rules::Answer;
use std::process::ExitCode;

/// The exit status that says an answer.
pub fn status(answer: Answer) -> ExitCode {
    match answer {
        Answer::Yes => ExitCode::SUCCESS,
        Answer::No => ExitCode::from(1),
        Answer::Unknown => ExitCode::from(CANNOT_TELL),
    }
}

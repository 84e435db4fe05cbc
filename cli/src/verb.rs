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
mod lake;
pub mod lint;
pub mod machine;
mod many;
pub mod report;
pub mod rollback;
pub mod snapshot;
mod source;
pub mod why;

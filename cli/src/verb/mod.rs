//! The verbs. Each parses its arguments, calls a library and prints; nothing is decided here.
//!
//! Exit status of every verb: 0 clean, 1 findings, 2 usage, 3 could not tell.

pub mod machine;

/// The answer could not be found: missing privileges, unreadable input, a host that failed.
pub const CANNOT_TELL: u8 = 3;

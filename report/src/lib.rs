//! Results rendered for readers and for programs. Nothing is computed here that a reader could
//! disagree with: every number comes from the result as it is.

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_docs)]

pub mod check;
pub mod document;
pub mod enable;
pub mod exits;
pub mod grid;
pub mod known;
pub mod lake;
pub mod layout;
pub mod lint;
pub mod nagios;
pub mod page;
pub mod plot;
pub mod prometheus;
pub mod records;
pub mod result;
pub mod sarif;
pub mod schema;
pub mod suite;
pub mod why;
pub mod writer;

//! Results rendered for people and for programs. Nothing is computed here that a reader could
//! disagree with: every number comes from the result as it is.

#![warn(missing_docs)]

pub mod exits;
pub mod grid;
pub mod page;
pub mod plot;

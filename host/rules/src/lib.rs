//! Facts and configuration to findings. Pure: no file system, no clock.

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_docs)]

pub mod boot_word;
pub mod capability;
pub mod configuration;
pub mod enable;
pub mod feature;
pub mod finding;
pub mod firmware;
pub mod inhibit;
pub mod lint;
pub mod position;
pub mod vm;
pub mod why;

#[cfg(test)]
mod published;

pub use feature::Feature;
pub use finding::{Answer, Evidence, Finding, Fix, Needs, Position, Severity};
pub use reading::Version;

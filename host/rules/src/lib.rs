//! Facts and configuration to findings. Pure: no file system, no clock.

pub mod finding;

pub use finding::{Answer, Evidence, Finding, Fix, Needs, Position, Severity};

//! The lab: a host that is emulated, so that everybody can see what interrupt virtualization does.
//!
//! [`drive::session::Session`] boots a kernel on the emulated machine with this very program as its
//! first process. That program, the [`agent`], loads KVM and runs virtual machines as it is told,
//! one [`protocol::Step`] at a time; meanwhile the machine counts the VM exits that it performs. So
//! each figure exists twice: as KVM's tracepoints count and as the silicon does.

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_docs)]

/// A line on the console of the emulated host, which must not end its first process.
macro_rules! say {
    ($($word:tt)*) => {{
        let line = format!($($word)*) + "\n";
        report::writer::program(line.as_bytes());
    }};
}

pub mod agent;
pub mod calibrate;
pub mod comparison;
pub mod drive;
pub mod evidence;
pub mod explore;
pub mod ground;
pub mod host;
mod interval;
pub mod lesson;
mod linux;
pub mod plan;
mod program;
pub mod protocol;
#[cfg(test)]
mod reference;
pub mod result;
pub mod run;
pub mod senduipi;
mod silicon;
pub mod suite;
pub mod verdict;
pub mod watch;
pub mod workload;

//! A client of the kernel's tracing directory. [LINUX "ftrace", "Event Histograms"]
//!
//! Everything is done in an [`Instance`] of our own, which goes when it is dropped: the tracing of
//! the host is not touched. Left out: reading ring-buffer pages as they are (`trace_pipe_raw`).

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_docs)]

mod directory;
mod histogram;
mod instance;
mod line;

pub use directory::{Directory, SyntheticEvent};
pub use histogram::{Entry, histogram};
pub use instance::{Instance, MARK};
pub use line::{InhibitChange, Line, RouteChange};

use std::path::PathBuf;

/// Why tracing cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// None of the usual places has it.
    #[error("tracefs is not mounted: sudo mount -t tracefs nodev /sys/kernel/tracing")]
    NotMounted,
    /// It is there, and not for this user.
    #[error("permission denied: {place}")]
    Refused {
        /// Path of the folder.
        place: &'static str,
    },
    /// No vendor module of KVM is loaded.
    #[error("this kernel has no KVM events: load kvm_amd or kvm_intel")]
    NoKvmEvents,
    /// Built without what passes values from one event to another.
    #[error("this kernel has no synthetic events (CONFIG_SYNTH_EVENTS)")]
    NoSyntheticEvents,
    /// A file of the folder does not read, write or exist.
    #[error("cannot access {path}")]
    File {
        /// The whole path.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

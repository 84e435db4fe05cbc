//! A client of the kernel's tracing directory. [LINUX "ftrace", "Event Histograms"]
//!
//! Everything is done in an [`Instance`] of our own, which goes when it is dropped: the tracing of
//! the host is not touched. Left out: reading ring-buffer pages as they are (`trace_pipe_raw`).

mod directory;
mod histogram;
mod instance;
mod line;

pub use directory::{Directory, SyntheticEvent};
pub use histogram::{Entry, histogram};
pub use instance::{Instance, MARK};
pub use line::{InhibitChange, Line};

use std::path::PathBuf;

/// Why tracing cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("tracefs is not mounted: sudo mount -t tracefs nodev /sys/kernel/tracing")]
    NotMounted,
    #[error("{place} may not be read by this user")]
    Refused { place: &'static str },
    #[error("this kernel has no KVM events: load kvm_amd or kvm_intel")]
    NoKvmEvents,
    #[error("this kernel has no synthetic events (CONFIG_SYNTH_EVENTS)")]
    NoSyntheticEvents,
    #[error("cannot access {path}")]
    File { path: PathBuf, source: std::io::Error },
}

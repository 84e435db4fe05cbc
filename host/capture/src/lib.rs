//! Recordings of VM exits to trace events: whatever the format, a reader calls a [`Sink`].
//!
//! A reader decides nothing about exits; it turns bytes into [`trace::kvm::KvmEvent`]s, says what
//! was lost and where a file breaks off. Every byte is taken to be hostile: sizes are checked
//! before use, loops end with the input, and no input panics.

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_docs)]

pub mod error;
pub mod format;
pub mod ftrace_text;
pub mod kvm;
pub mod live;
pub mod machine;
pub mod open;
pub mod order;
pub mod parallel;
pub mod perf_data;
pub mod perf_table;
pub mod reading;
pub mod sink;
pub mod sums;
pub mod trace_dat;
pub mod tracing_data;
pub mod xen_trace;

pub use error::Error;
pub use reading::Reading;
pub use sink::{Origin, Sink};

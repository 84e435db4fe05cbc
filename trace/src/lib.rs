//! One vocabulary of interrupt-virtualization events, used by the machine, by recordings of real
//! hosts and by everything that analyses either.

#![warn(missing_docs)]

pub mod event;
pub mod exit_reason;
pub mod file;
pub mod hash;
pub mod inhibit;
pub mod kvm;
pub mod perfetto;
pub mod symbol;
mod word;

pub use event::{Event, Record, VirtualCpu};
pub use hash::TraceHash;

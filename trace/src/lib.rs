//! One vocabulary of interrupt-virtualization events, used by the machine, by recordings of real
//! hosts and by everything that analyses either.

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_docs)]

pub mod ctf;
pub mod event;
pub mod exit_reason;
pub mod file;
pub mod goal;
pub mod hash;
pub mod inhibit;
pub mod kvm;
pub mod perfetto;
pub mod symbol;
mod virtual_cpu;
mod word;

pub use event::{Event, Record};
pub use goal::EventGoal;
pub use hash::TraceHash;
pub use virtual_cpu::VirtualCpu;

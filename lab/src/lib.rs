//! The lab: a host that is emulated, so that everybody can see what interrupt virtualization does.
//!
//! [`session::Session`] boots a kernel on the emulated machine with this very program as its first
//! process. That program, the [`agent`], loads KVM and runs virtual machines as it is told, one
//! [`protocol::Step`] at a time; meanwhile the machine counts the VM exits that it performs. So
//! each figure exists twice: as KVM's tracepoints count and as the silicon does.

pub mod agent;
pub mod builtin;
pub mod comparison;
pub mod counters;
mod elf;
pub mod initramfs;
pub mod kernel;
pub mod page;
pub mod prediction;
pub mod protocol;
pub mod session;
pub mod workload;

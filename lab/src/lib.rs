//! The lab: a host that is emulated, so that everybody can see what interrupt virtualization does.
//!
//! [`session::Session`] boots a kernel on the emulated machine with this very program as its first
//! process. That program, the [`agent`], loads KVM and runs virtual machines as it is told, one
//! [`protocol::Step`] at a time; meanwhile the machine counts the VM exits that it performs. So
//! each figure exists twice: as KVM's tracepoints count and as the silicon does.

#![warn(missing_docs)]

pub mod agent;
pub mod between;
pub mod booted;
pub mod breakdown;
pub mod builtin;
mod cache;
pub mod comparison;
pub mod counters;
pub mod device;
pub mod distribution;
pub mod drive;
mod elf;
pub mod expect;
pub mod expected;
pub mod experiment;
pub mod files;
mod gloss;
mod grids;
pub mod host;
mod inhibition;
pub mod initramfs;
pub mod kernel;
pub mod network;
mod page;
pub mod per_ipi;
pub mod prediction;
pub mod protocol;
mod published;
pub mod recording;
mod remarks;
pub mod result;
pub mod run;
pub mod session;
pub mod verdict;
pub mod workload;

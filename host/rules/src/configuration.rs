//! Configurations as people and tools write them, read into [`VmConfiguration`]s and module
//! options.
//!
//! Every reader is pure, bounded and keeps the place of what it reads. What cannot be resolved here
//! (a variable, an included file) is said to be unknown, and never silently taken for a default.
//!
//! [`VmConfiguration`]: crate::vm::VmConfiguration

pub mod change;
pub(crate) mod dialect;
pub mod edit;
mod embedded;
mod foreign;
pub mod given;
mod input;
mod other_vmm;
mod pairs;
mod qemu;
mod qemu_arguments;
pub(crate) mod qemu_machine;
mod qemu_program;
mod registry;
mod shell;
#[cfg(test)]
mod tests;
mod yaml;

pub use dialect::Contents;
pub use input::{Hints, InputError, Kind, MAX_BYTES, ModuleOption};
pub use registry::{detect, read};
pub use shell::settings;

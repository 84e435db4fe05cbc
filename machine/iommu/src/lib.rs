//! I/O memory management units, over [`SystemMemory`] that processors share. Nothing here knows a
//! processor or a bus: the caller says which function accessed what, and is told what comes of it.

#![warn(missing_docs)]

pub mod amd_vi;
mod memory;

pub use amd_vi::AmdVi;
pub use memory::SystemMemory;

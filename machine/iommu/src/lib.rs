//! I/O memory management units, over [`SystemMemory`] that processors share. Nothing here knows a
//! processor or a bus: the caller says which function accessed what, and is told what comes of it.

#![warn(missing_docs)]

mod access;
pub mod amd_vi;
mod memory;
mod unit;
pub mod vt_d;

pub use access::{Access, Remapped, Translation};
pub use amd_vi::AmdVi;
pub use memory::SystemMemory;
pub use unit::{Behaviour, Iommu, Model, Outcome, Part, Posting, PostingStep, Refusal, Signal};
pub use vt_d::VtD;

//! Intel's I/O memory management unit: its registers, the tables that it walks in memory, the
//! descriptors of its invalidation queue, its fault records, and the firmware table that announces
//! it. [VTD "Architecture Overview"]
//!
//! DEVIATION(VTD "Scalable Mode Translation"): the tables of scalable mode, page requests and the
//! translation caches of devices have no types here.

pub mod descriptor;
pub mod fault;
pub mod firmware;
pub mod register;
pub mod remapping;
#[cfg(test)]
mod tests;
pub mod translation;

pub use descriptor::Descriptor;
pub use fault::{FaultReason, FaultRecord};
pub use register::{Capability, ExtendedCapability, GlobalCommand};
pub use remapping::{PostedEntry, RemappableAddress, RemappedEntry, SourceCheck};
pub use translation::{ContextEntry, RootEntry, SecondLevelEntry, TranslationType};

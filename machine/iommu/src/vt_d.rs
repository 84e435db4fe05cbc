//! Intel's IOMMU, in legacy mode. [VTD "Architecture Overview"]
//!
//! Nothing is cached: each access and each interrupt reads the tables as they are, so that every
//! invalidation is complete at once.
//!
//! DEVIATION(VTD "Scalable Mode Translation"): scalable mode, page requests, device caches,
//! protected memory ranges and the fault log in memory are not there, and not among the
//! capabilities.

mod fault;
mod post;
mod queue;
mod register;
mod remap;
mod translate;
mod unit;

#[cfg(test)]
mod tests;

pub use post::{Posting, PostingStep};
pub use remap::Remapped;
pub(super) use unit::EventMessage;
pub use unit::{Model, Signal, VtD};

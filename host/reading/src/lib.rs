//! What is known of a host: the vocabulary that rules speak and the reader of hosts fills.
//!
//! Every value says where it was read, and a value that is not there says why: rules must be able
//! to tell "no" from "not known". Left out: everything without influence on interrupt
//! virtualization.

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_docs)]

pub mod cpu;
pub mod evidence;
pub mod fact;
pub mod function;
pub mod host;
pub mod initial_disk;
pub mod iommu;
pub mod kernel;
pub mod module;
pub mod observation;
pub mod table;
pub mod tracepoint;
pub mod version;

pub use cpu::{CpuKind, Cpuid, Vendor};
pub use evidence::{Evidence, Position};
pub use fact::{Fact, Reading};
pub use function::{InterruptCounter, RemappingEntry, Signalling, VfioInterrupt};
pub use host::{Boot, ConfigurationFile, Facts, RunningVm};
pub use initial_disk::InitialDisk;
pub use iommu::{AmdFeatures, Iommu, IommuKind};
pub use kernel::{Kernel, KernelFeature};
pub use module::{Module, boolean};
pub use observation::{Observation, Route};
pub use table::{Dmar, Ivhd, Ivrs, Madt};
pub use version::Version;

//! Secure Virtual Machine: what AMD processors do between VMRUN and #VMEXIT.
//! [APM2 "Secure Virtual Machine"]

mod apic_page;
mod behaviour;
mod boundary;
mod check;
mod clean;
mod entry;
mod exit;
pub(crate) mod instruction;
mod intercept;
mod ipi;
mod msr;
mod nested;
mod pause;
mod permission;
mod region;
mod save_area;
mod state;
mod variant;
mod vendor;

// AVIC knows no processor; here is what runs guests with it.
pub use virtual_apic::avic;

pub use behaviour::{AVIC_IPI_ERRATUM, EnableCleanBit, IdleHltPending, SvmBehaviour};
pub use state::{Exit, Guest, Host, NestedPaging, PauseFilter, Svm};
pub(crate) use variant::VARIANTS;

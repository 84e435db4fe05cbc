//! Secure Virtual Machine: what AMD processors do between VMRUN and #VMEXIT.
//! [APM2 "Secure Virtual Machine"]

mod apic_page;
mod boundary;
mod check;
mod clean;
mod entry;
mod exit;
pub(crate) mod instruction;
mod intercept;
mod msr;
mod nested;
mod permission;
mod state;

// AVIC knows no processor; here is what runs guests with it.
pub use virtual_apic::avic;

pub use state::{
    EnableCleanBit, Exit, Guest, Host, IdleHltPending, NestedPaging, PauseFilter, Svm,
    SvmBehaviour, SvmCosts,
};

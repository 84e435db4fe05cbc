//! SVM as a hypervisor uses it. [APM2 "Secure Virtual Machine"]

pub mod avic;
pub mod control;
pub mod cpuid;
pub mod entry;
pub mod exit;
pub mod feature;
pub mod inject;
pub mod instruction;
pub mod msr;
pub mod nested;

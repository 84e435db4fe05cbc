//! Secure Virtual Machine: the VMCB, intercepts, exit codes, MSRs and AVIC's tables.
//! [APM2 "Secure Virtual Machine"]
//!
//! SEV, SEV-ES, SEV-SNP and Secure AVIC have names for their exit codes and VMCB fields here where
//! software prints them; their behaviour is not modelled anywhere.

pub mod avic;
pub mod clean;
pub mod consistency;
pub mod event;
pub mod exit;
pub mod feature;
pub mod intercept;
pub mod listing;
pub mod msr;
pub mod segment;
pub mod vmcb;

#[cfg(test)]
mod tests;

pub use event::{EventType, Injection};
pub use exit::ExitCode;
pub use feature::SvmFeatures;
pub use intercept::Intercepts;
pub use vmcb::{Field, Vmcb};

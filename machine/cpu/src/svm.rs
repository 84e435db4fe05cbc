//! Secure Virtual Machine: what AMD processors do between VMRUN and #VMEXIT.
//! [APM2 "Secure Virtual Machine"]

pub mod avic;

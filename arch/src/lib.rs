//! The manuals as types: registers, tables and encodings of x86-64, the APICs, SVM, VMX, the IOMMUs
//! and devices. Facts only: no behaviour beyond encoding and decoding, no `unsafe`, no `std`.
#![no_std]
#![warn(missing_docs)]

pub mod address;
pub mod amd_vi;
pub mod apic;
pub mod control;
pub mod cpuid;
pub mod exception;
pub mod identity;
pub mod intel_82599;
pub mod memory_type;
pub mod msi;
pub mod msr;
pub mod nvme;
pub mod paging;
pub mod pci;
pub mod segment;
pub mod svm;
pub mod time;
pub mod uintr;
pub mod vmx;
pub mod vt_d;

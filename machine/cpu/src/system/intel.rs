//! Registers and leaves that Intel's parts have of their own.

pub mod cpuid;
pub mod governor;
pub mod msr;
mod speculation;

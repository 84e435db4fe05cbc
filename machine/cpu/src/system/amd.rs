//! Registers and leaves that AMD's parts have of their own.

pub mod cpuid;
pub mod governor;
pub mod msr;

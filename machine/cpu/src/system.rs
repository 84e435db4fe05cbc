//! Privileged state: descriptors, events, far transfers, tasks, control registers, MSRs, CPUID.

mod amd;
pub(crate) mod branch_record;
pub(crate) mod control;
pub(crate) mod cpuid;
pub(crate) mod debug;
pub(crate) mod descriptor;
pub(crate) mod event;
pub(crate) mod far;
pub(crate) mod governor;
mod intel;
pub(crate) mod local_apic;
pub(crate) mod msr;
pub(crate) mod syscall;
mod table;
pub(crate) mod task;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod uintr;
pub(crate) mod waiting;

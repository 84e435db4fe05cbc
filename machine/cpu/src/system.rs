//! Privileged state: descriptors, events, far transfers, tasks, control registers, MSRs, CPUID.

mod branch_record;
mod control;
mod cpuid;
mod debug;
mod descriptor;
mod event;
mod far;
mod local_apic;
mod msr;
mod syscall;
mod task;

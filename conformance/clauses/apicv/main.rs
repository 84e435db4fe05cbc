//! APICv, IPI virtualization and posted interrupts, rule by rule, and the races between processors
//! enumerated.

mod access;
mod command;
mod controls;
mod equivalence;
mod hostile;
mod ipi;
mod machine;
mod msr;
mod posted_descriptor;
mod race;
#[path = "../sparse_memory.rs"]
mod sparse_memory;
mod virtual_interrupt;

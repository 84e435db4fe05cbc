//! AVIC and x2AVIC, rule by rule, and the races between processors enumerated.

mod access;
mod interrupt;
mod ipi;
mod machine;
mod race;
#[path = "../sparse_memory.rs"]
mod sparse_memory;
mod vmcb;

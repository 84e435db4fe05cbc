//! Clauses of the processor itself: paging, exceptions and interrupts, control and model-specific
//! registers, transfers of control, tasks, saved state, and what the vendors read differently.

mod avx;
mod control;
mod debug;
mod double_fault;
mod exception;
mod interrupt;
mod key;
mod layout;
mod page;
mod paging;
mod paging_legacy;
mod speculation;
mod state;
mod subject;
mod system_call;
mod task;
mod uintr;
mod vendor;

//! VMX on one processor: real instructions in a host and a guest, and what the VMCS says after.

mod control;
mod entry;
mod event;
mod exception;
mod exit;
mod function;
mod instruction;
mod lab;
mod nested;
mod random;
mod shadow;
mod uintr;

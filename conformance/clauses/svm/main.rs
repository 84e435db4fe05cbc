//! SVM on one processor: real instructions in a host and a guest, and what the VMCB says after.

mod avic;
mod branch_record;
mod entry;
mod event;
mod held;
mod idle;
mod intercept;
mod lab;
mod nested;
mod random;
mod register;

//! SVM on one processor: real instructions in a host and a guest, and what the VMCB says after.

mod avic;
mod entry;
mod event;
mod intercept;
mod lab;
mod nested;
mod register;

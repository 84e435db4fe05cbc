//! The guest's local APIC: its page, which the processor may read and write too, and what software
//! does where the processor does not stand in for an APIC, or leaves something to software.
//! [APM2 "Advanced Programmable Interrupt Controller"] [APM2 "vAPIC Backing Page"]

pub mod command;
pub mod page;
pub mod register;
pub mod target;
pub mod timer;

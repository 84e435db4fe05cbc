//! Clauses of the local APIC, the I/O APIC and their messages.

mod command;
mod destination;
mod end_of_interrupt;
mod error;
mod io_apic;
mod local_vector;
mod mode;
mod priority;
mod register;
mod subject;
mod timer;

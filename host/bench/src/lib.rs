//! A minimal virtual machine monitor on KVM. [KVM-API "KVM API documentation"]
//!
//! KVM runs the processors with their local APICs; everything else is the emulated board's own
//! devices, tables and loaders. What differs between two runs is what decides about AVIC and
//! APICv: where the I/O APIC is, whether KVM's timer chip reinjects lost ticks, x2APIC mode, and
//! what KVM inhibits either for. Functions of the host can be given to the guest, with vfio.
//!
//! Left out: live migration, reset (it ends the run), more memory than fits below the hole for
//! devices, ExtINT delivery from the 8259s with a split interrupt chip.

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_docs)]

mod configuration;
mod devices;
mod error;
mod given;
mod inhibit;
mod lines;
pub mod loops;
mod memory;
mod message;
mod outcome;
mod processor;
mod pulse;
mod routes;
mod run;
mod saver;
mod tickets;
mod vfio;
mod virtual_machine;

pub use configuration::{Configuration, InterruptChip, Timer};
pub use error::BenchError;
pub use inhibit::{Inhibit, Inhibitor};
pub use lines::{LINES, Raiser};
pub use message::Messenger;
pub use outcome::{End, Outcome};
pub use pulse::{Pulse, Target};
pub use run::thread_name;
pub use saver::Saver;
pub use tickets::Tickets;
pub use virtual_machine::{MOST_MEMORY, VirtualMachine};

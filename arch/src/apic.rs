//! Local APIC and I/O APIC: registers, delivery modes, interrupt messages.
//! [APM2 "Advanced Programmable Interrupt Controller"] [SDM3 "APIC"]

mod base;
mod command;
mod destination;
mod error;
mod io;
mod local_vector;
mod message;
mod register;
mod spurious;

pub use base::{ApicBase, Mode};
pub use command::Icr;
pub use destination::{DestinationFormat, Dfr, Ldr, X2Ldr};
pub use error::Esr;
pub use io::{IoRegister, IoVersion, RedirectionEntry, io_mmio};
pub use local_vector::{DivideConfiguration, LocalVector, Lvt, TimerMode};
pub use message::{DeliveryMode, DestinationMode, InterruptMessage, Scope};
pub use register::{
    ApicVersion, ExtendedControl, ExtendedFeature, FIRST_LEGAL_VECTOR, MSR_FIRST, MSR_LAST,
    Register,
};
pub use spurious::Svr;

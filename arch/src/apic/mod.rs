//! Local APIC and I/O APIC: registers, delivery modes, interrupt messages.

mod message;

pub use message::{DeliveryMode, DestinationMode, InterruptMessage, Scope};

//! What every part of the machine speaks: guest memory, initiators, the outbox, and the two
//! interfaces through which a processor reaches devices and a device reaches memory.
//!
//! Parts hold no reference to each other. A processor is handed a [`Platform`] for the time of one
//! run; a device is handed a [`Context`] for the time of one access. Whatever either causes
//! elsewhere is an [`Effect`] in the [`Outbox`], which the board alone turns into deliveries.

#![warn(missing_docs)]

mod effect;
mod memory;
mod platform;
mod probe;
mod random;
mod stamp;
mod store_buffer;
mod undo;
pub mod walk;

pub use effect::{ControlBlock, Effect, Happening, Initiator, Outbox, VmExit};
pub use memory::{
    GuestMemory, HOLE_END, HOLE_START, HostMemoryExhausted, MemoryLayout, OutOfRange,
};
pub use platform::{Context, DirectMemoryAccess, DmaFault, Platform, Visit};
pub use probe::{Author, HardwareWrite, Probe};
pub use random::Random;
pub use stamp::Stamp;
pub use store_buffer::StoreBuffer;
pub use undo::Before;

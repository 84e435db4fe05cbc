//! The emulated computer: everything that knows all of its parts.

pub mod debugger;
pub mod firmware;
pub mod load;
pub mod snapshot;
pub mod topology;

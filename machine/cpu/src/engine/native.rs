//! Blocks that the host executes itself: which, when, and how processor and translated code hand
//! over to each other.
//!
//! The interpreter is the definition. Code runs blocks only as far as there is room for each,
//! counts time and instructions as the interpreter does, and has every instruction that it does not
//! know, and every access that the TLB does not know, done by its handler. So it shows nowhere but
//! in the host's time when a block is translated.

mod mode;
pub(crate) mod policy;
pub(crate) mod session;
pub(crate) mod skip;
pub(crate) mod spin;
mod verification;
pub(crate) mod verify;

pub(crate) use mode::translated_mode;
pub(crate) use policy::Native;
pub use policy::{HEAT, wanted_heat};
pub use verification::Verified;

pub use native::Absence;

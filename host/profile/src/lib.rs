//! Events of a recording to a profile of its VM exits: how many, how long, why, and what hardware
//! interrupt virtualization would take away.
//!
//! Pure: no files, no clock, no threads. A recording may be fed whole or as consecutive
//! [`part::Part`]s that are joined in order; the result is the same (see `docs/exits.md`).

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_docs)]

pub mod assembly;
pub mod avoidable;
pub mod cell;
pub mod compare;
pub mod inhibit;
pub mod interrupts;
pub mod key;
mod losses;
pub mod name;
pub mod pairing;
pub mod part;
pub mod pasted;
pub mod profile;
pub mod sampled;
#[cfg(feature = "schema")]
mod schema;
pub mod summary;
mod table;
mod trip;

pub use assembly::Assembly;
pub use cell::Cell;
pub use key::{Detail, Key, PackedDetail, Shorthand, View};
pub use part::{Options, Part};
pub use profile::{Profile, Selection, Vcpu};
pub use summary::{Context, Summary};

//! Recordings of VM exits to profiles: a file is opened, its parts are read in parallel, and what
//! they hold is joined.
//!
//! The readers' loops over their sink are compiled here: this crate is optimized as they are.

#![warn(missing_docs)]

mod error;
mod gather;
mod read;
pub mod sampled;

pub use error::Error;
pub use read::{Analysis, Follow, Told, Unfollowed, analyse};

//! How far blocks may run, and what each says when it has.

use super::blocks::{Exit, OpPlace};
use arch::time::Picoseconds;

/// How far blocks may run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// No instruction begins at or after this time.
    pub clock: Picoseconds,
    /// The count of instructions at which to stop.
    pub instructions: u64,
}

/// What a block says to those who run blocks one after the other.
pub(crate) enum Next {
    Chain(Exit),
    /// As far as it goes blocks go on, but how code is read may have changed.
    Afresh,
    /// It was left at this instruction, which asks to be executed by itself.
    Alone(OpPlace),
    Leave,
}

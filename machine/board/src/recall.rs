//! Calling a run back from outside: a signal's handler or a thread at the keyboard says so, and
//! [`crate::Machine::run`] returns at its next look. That is a property of the host's time: what
//! the machine does is the same, it goes on with the next run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A machine's bell. Clones ring the same.
#[derive(Clone, Debug, Default)]
pub struct Recall(Arc<AtomicBool>);

impl Recall {
    /// Makes the run under way, or the next one, return.
    pub fn ring(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it rang since the last call.
    pub(crate) fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

//! Machines that trials have left where they began, for the next trials of the same host.

use ::lab::drive::session::Again;
use std::sync::{Mutex, PoisonError};

/// Bytes of memory that all machines of them have together, at most; the one left first goes first.
const MOST: u64 = 4 << 30;

/// By what the host is, in words.
#[derive(Default)]
pub struct Ready(Mutex<Vec<(String, Again)>>);

impl Ready {
    /// One of this host.
    pub fn take(&self, name: &str) -> Option<Again> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = all.iter().rposition(|(own, _)| own == name)?;
        Some(all.remove(place).1)
    }

    /// Leaves one, if there is room for it.
    pub fn put(&self, name: String, again: Again) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((name, again));
        while all.iter().map(|(_, one)| one.memory()).sum::<u64>() > MOST {
            all.remove(0);
        }
    }
}

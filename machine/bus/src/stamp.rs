//! Numbers that tell whether something has changed since it was looked at.

use std::sync::atomic::{AtomicU64, Ordering};

/// Origins that stamps of this process have had: no two have the same.
static ORIGINS: AtomicU64 = AtomicU64::new(0);

/// Stands beside what may change, and changes with it: what it says is never what it has said
/// before, nor what another one says. A copy may change otherwise than what it was copied from, so
/// it says something else from the start. Nothing of the machine's state.
#[derive(Debug)]
pub struct Stamp {
    origin: u64,
    changes: u64,
}

impl Stamp {
    /// What it stands beside has changed.
    #[inline(always)]
    pub fn change(&mut self) {
        self.changes += 1;
    }

    /// The same numbers are said only of the same.
    #[inline(always)]
    pub fn said(&self) -> [u64; 2] {
        [self.origin, self.changes]
    }
}

impl Default for Stamp {
    fn default() -> Self {
        Self { origin: ORIGINS.fetch_add(1, Ordering::Relaxed), changes: 0 }
    }
}

impl Clone for Stamp {
    fn clone(&self) -> Self {
        Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_change_nor_a_copy_says_what_was_said_before() {
        let mut stamp = Stamp::default();
        let first = stamp.said();
        assert_eq!(stamp.said(), first);
        let copy = stamp.clone();
        stamp.change();
        let said = [first, stamp.said(), copy.said(), Stamp::default().said()];
        for (at, one) in said.iter().enumerate() {
            assert!(!said[..at].contains(one), "{one:?} is said twice");
        }
    }
}

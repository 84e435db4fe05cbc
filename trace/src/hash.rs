//! A running 64-bit hash over records: two runs with the same hash did the same.
//!
//! Each word is folded in by exclusive or, a multiplication by an odd constant and a rotation, all
//! on 64-bit integers, so that every host gets the same value. Not a cryptographic hash.

use crate::event::Record;
use serde::{Deserialize, Serialize};

/// The fractional part of the golden ratio, made odd.
const START: u64 = 0x9E37_79B9_7F4A_7C15;
const MULTIPLIER: u64 = 0xD6E8_FEB8_6659_FD93;

/// The hash of all records so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceHash(u64);

impl Default for TraceHash {
    fn default() -> Self {
        Self(START)
    }
}

impl TraceHash {
    /// Folds one word in.
    #[inline]
    pub fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(MULTIPLIER).rotate_left(29);
    }

    /// Folds a record in: time, processor and kind, then its fields. Remarks are left out.
    pub fn record(&mut self, record: &Record) {
        if record.event.is_remark() {
            return;
        }
        self.word(record.at.0);
        self.word(u64::from(record.cpu.0) << 8 | u64::from(record.event.kind()));
        record.event.fields(|_, field| self.word(field.word()));
    }

    /// The value so far, with the last words spread over all bits.
    pub fn value(&self) -> u64 {
        let mixed = (self.0 ^ self.0 >> 32).wrapping_mul(MULTIPLIER);
        mixed ^ mixed >> 29
    }
}

impl core::fmt::Display for TraceHash {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:016x}", self.value())
    }
}

//! Which fields of a VMCB a processor may keep from the last run, by clean bit. Those under no bit
//! are always read. [APM2 "VMCB Clean Bits"]

use super::vmcb::{CleanBits, Field, Value, control, save};
use core::ops::Range;

/// Bytes of the VMCB that a clean bit covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Covered {
    /// Its clean bit.
    pub bit: CleanBits,
    /// Of the field, from the VMCB's start.
    pub bytes: Range<usize>,
}

impl Covered {
    pub(super) const fn by<T: Value>(bit: CleanBits, field: Field<T>) -> Self {
        let start = field.offset() as usize;
        Self { bit, bytes: start..start + T::SIZE }
    }
}

/// All fields that a bit covers; they say so where they are defined.
pub fn covered() -> impl Iterator<Item = &'static Covered> {
    control::KEPT.iter().chain(save::KEPT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_byte_has_two_bits_and_all_lie_in_a_vmcb() {
        for (at, row) in covered().enumerate() {
            assert!(row.bytes.end <= super::super::vmcb::SIZE, "{row:?}");
            for other in covered().take(at) {
                let is_apart =
                    row.bytes.end <= other.bytes.start || other.bytes.end <= row.bytes.start;
                assert!(is_apart, "{row:?} {other:?}");
            }
        }
    }
}

//! Which fields of a VMCB a processor may keep from the last run, by clean bit: a row each. What
//! stands here under no bit is always read. [APM2 "VMCB Clean Bits"]

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

const fn row<T: Value>(bit: CleanBits, field: Field<T>) -> Covered {
    let start = field.offset() as usize;
    Covered { bit, bytes: start..start + T::SIZE }
}

/// All fields that a bit covers.
pub const COVERED: &[Covered] = &[
    row(CleanBits::INTERCEPTS, control::INTERCEPTS),
    row(CleanBits::INTERCEPTS, control::PAUSE_FILTER_THRESHOLD),
    row(CleanBits::INTERCEPTS, control::PAUSE_FILTER_COUNT),
    row(CleanBits::INTERCEPTS, control::TSC_OFFSET),
    row(CleanBits::PERMISSION_MAPS, control::IOPM_BASE_PA),
    row(CleanBits::PERMISSION_MAPS, control::MSRPM_BASE_PA),
    row(CleanBits::ASID, control::GUEST_ASID),
    row(CleanBits::INTERRUPT_CONTROL, control::INTERRUPT_CONTROL),
    row(CleanBits::NESTED_PAGING, control::NESTED_CONTROL),
    row(CleanBits::NESTED_PAGING, control::N_CR3),
    row(CleanBits::NESTED_PAGING, save::G_PAT),
    row(CleanBits::CONTROL_REGISTERS, save::EFER),
    row(CleanBits::CONTROL_REGISTERS, save::CR4),
    row(CleanBits::CONTROL_REGISTERS, save::CR3),
    row(CleanBits::CONTROL_REGISTERS, save::CR0),
    row(CleanBits::DEBUG_REGISTERS, save::DR7),
    row(CleanBits::DEBUG_REGISTERS, save::DR6),
    row(CleanBits::DESCRIPTOR_TABLES, save::GDTR),
    row(CleanBits::DESCRIPTOR_TABLES, save::IDTR),
    row(CleanBits::SEGMENTS, save::ES),
    row(CleanBits::SEGMENTS, save::CS),
    row(CleanBits::SEGMENTS, save::SS),
    row(CleanBits::SEGMENTS, save::DS),
    row(CleanBits::SEGMENTS, save::CPL),
    row(CleanBits::CR2, save::CR2),
    row(CleanBits::LAST_BRANCH_RECORDS, save::DBGCTL),
    row(CleanBits::LAST_BRANCH_RECORDS, save::BR_FROM),
    row(CleanBits::LAST_BRANCH_RECORDS, save::BR_TO),
    row(CleanBits::LAST_BRANCH_RECORDS, save::LAST_EXCEPTION_FROM),
    row(CleanBits::LAST_BRANCH_RECORDS, save::LAST_EXCEPTION_TO),
    row(CleanBits::AVIC, control::AVIC_APIC_BAR),
    row(CleanBits::AVIC, control::AVIC_BACKING_PAGE),
    row(CleanBits::AVIC, control::AVIC_LOGICAL_TABLE),
    row(CleanBits::AVIC, control::AVIC_PHYSICAL_TABLE),
    row(CleanBits::CET, save::S_CET),
    row(CleanBits::CET, save::SSP),
    row(CleanBits::CET, save::ISST_ADDR),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_byte_has_two_bits_and_all_lie_in_a_vmcb() {
        for (at, row) in COVERED.iter().enumerate() {
            assert!(row.bytes.end <= super::super::vmcb::SIZE, "{row:?}");
            for other in &COVERED[..at] {
                let is_apart =
                    row.bytes.end <= other.bytes.start || other.bytes.end <= row.bytes.start;
                assert!(is_apart, "{row:?} {other:?}");
            }
        }
    }
}

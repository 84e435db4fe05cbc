//! [SDM3 "Error Handling"] [APM2 "Error Interrupts"]

use crate::subject::*;
use arch::apic::{LocalVector, Register};
use arch::identity::Vector;
use interrupt::{Acceptance, LocalApic};

const SEND_ILLEGAL_VECTOR: u32 = 1 << 5;
const RECEIVE_ILLEGAL_VECTOR: u32 = 1 << 6;
const ILLEGAL_REGISTER: u32 = 1 << 7;
const ENTRY: Register = Register::LocalVector(LocalVector::Error);

/// Software reads errors by a write, then a read.
fn errors(apic: &mut LocalApic) -> u32 {
    write(apic, Register::ErrorStatus, 0);
    read(apic, Register::ErrorStatus)
}

#[test]
fn illegal_vectors_are_refused_where_they_arrive() {
    for vector in 0..=255u8 {
        let mut apic = xapic(intel(3));
        let is_legal = vector >= 16;
        let expected = if is_legal { Acceptance::Queued } else { Acceptance::Ignored };
        assert_eq!(apic.accept(&fixed(vector)), expected);
        assert_eq!(errors(&mut apic), if is_legal { 0 } else { RECEIVE_ILLEGAL_VECTOR });
    }
}

#[test]
fn register_shows_errors_after_a_write_and_clears_with_the_next() {
    for build in [xapic, x2apic] {
        let mut apic = build(amd(3));
        apic.accept(&fixed(3));
        assert_eq!(read(&mut apic, Register::ErrorStatus), 0, "not before the write");
        assert_eq!(errors(&mut apic), RECEIVE_ILLEGAL_VECTOR);
        assert_eq!(read(&mut apic, Register::ErrorStatus), RECEIVE_ILLEGAL_VECTOR);
        assert_eq!(errors(&mut apic), 0);
    }
}

#[test]
fn errors_gather() {
    let mut apic = xapic(amd(3));
    apic.accept(&fixed(3));
    write(&mut apic, Register::Command, 0x4003);
    apic.read_mmio(0x40, 4, NOW);
    assert_eq!(errors(&mut apic), RECEIVE_ILLEGAL_VECTOR | SEND_ILLEGAL_VECTOR | ILLEGAL_REGISTER);
}

#[test]
fn offsets_without_a_register_are_errors_in_xapic_mode() {
    for (model, is_amd) in [(amd(3), true), (intel(3), false)] {
        for offset in (0..0x1000).step_by(16) {
            let exists = match Register::at(offset) {
                Some(Register::SelfIpi) | None => false,
                Some(Register::LocalVector(LocalVector::CorrectedMachineCheck)) => !is_amd,
                Some(register) => is_amd || register.offset() < 0x400,
            };
            let expected = if exists { 0 } else { ILLEGAL_REGISTER };
            let mut apic = xapic(model.clone());
            apic.read_mmio(offset, 4, NOW);
            assert_eq!(errors(&mut apic), expected, "read of {offset:x}");
            if Register::at(offset) != Some(Register::Command) {
                let mut apic = xapic(model.clone());
                apic.write_mmio(offset, 4, 0, NOW, &mut Vec::new());
                assert_eq!(errors(&mut apic), expected, "write of {offset:x}");
            }
        }
    }
}

#[test]
fn error_interrupt_comes_once_per_kind_until_read_out() {
    let mut apic = xapic(amd(3));
    write(&mut apic, ENTRY, 0xFE);
    for _ in 0..3 {
        apic.accept(&fixed(3));
    }
    assert_eq!(drain(&mut apic), [0xFE]);
    apic.accept(&fixed(3));
    assert_eq!(apic.pending(), None);
    errors(&mut apic);
    apic.accept(&fixed(3));
    assert_eq!(apic.pending(), Some(Vector(0xFE)));
}

#[test]
fn masked_entry_records_the_error_without_an_interrupt() {
    let mut apic = xapic(intel(3));
    write(&mut apic, ENTRY, 0x1_00FE);
    apic.accept(&fixed(3));
    assert_eq!(apic.pending(), None);
    assert_eq!(errors(&mut apic), RECEIVE_ILLEGAL_VECTOR);
}

#[test]
fn illegal_vector_in_the_error_entry_does_not_recurse() {
    let mut apic = xapic(intel(3));
    write(&mut apic, ENTRY, 0x05);
    write(&mut apic, Register::Command, 0x4003);
    assert_eq!(errors(&mut apic), SEND_ILLEGAL_VECTOR | RECEIVE_ILLEGAL_VECTOR);
    assert_eq!(apic.pending(), None);
}

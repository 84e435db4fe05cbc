//! FXSAVE and the XSAVE family. [APM2 "Saving Media and x87 State"] [SDM1 "Managing State Using the
//! XSAVE Feature Set"]

use crate::layout::*;
use crate::subject::{Code, Mode, Outcome, PROTECTION, Subject, UNDEFINED};
use arch::control::Cr4;
use iced_x86::code_asm::*;

const AREA: u64 = SPARE;
const HEADER: u64 = AREA + 512;
/// XCOMP_BV's bit for the compacted form.
const COMPACTED: u64 = 1 << 63;
const SSE: u64 = 2;
const PKRU: u64 = 1 << 9;

/// A subject whose registers hold something, about to save or restore all components at AREA.
fn subject(code: Code) -> Subject {
    let mut subject = Subject::with("zen4", Mode::Long, code);
    subject.cpu.control.switch_cr4(Cr4::OSXSAVE | Cr4::PKE, true);
    subject.cpu.control.xcr0 = 3 | PKRU;
    subject.cpu.registers.gpr[0] = 0xFFFF_FFFF;
    subject.cpu.registers.gpr[2] = 0xFFFF_FFFF;
    subject.cpu.registers.gpr[3] = AREA;
    subject.cpu.registers.xmm[0] = 0x1111;
    subject.cpu.control.pkru = 0x5554;
    subject
}

#[test]
fn xsave_writes_the_enabled_components_and_says_which_are_in_use() {
    let mut subject = subject(|a| a.xsave(ptr(rbx)));
    assert_eq!(subject.run(), Outcome::Done);
    assert_eq!(subject.get(HEADER) & (SSE | PKRU), SSE | PKRU);
    assert_eq!(subject.get(AREA + 160), 0x1111, "XMM0");
    assert_eq!(subject.get(AREA + 576 + 256) as u32, 0x5554, "PKRU in its standard place");
}

#[test]
fn xsavec_packs_components_and_leaves_initial_ones_out() {
    let mut subject = subject(|a| a.xsavec(ptr(rbx)));
    subject.cpu.registers.xmm[0] = 0;
    assert_eq!(subject.run(), Outcome::Done);
    assert_eq!(subject.get(HEADER) & SSE, 0, "SSE is initial");
    assert_eq!(subject.get(HEADER + 8), COMPACTED | 3 | PKRU);
    assert_eq!(subject.get(AREA + 576) as u32, 0x5554, "PKRU behind the header");
}

#[test]
fn xrstor_initializes_what_the_header_does_not_list() {
    let mut subject = subject(|a| a.xrstor(ptr(rbx)));
    subject.put(AREA + 24, 0x1F80);
    assert_eq!(subject.run(), Outcome::Done);
    assert_eq!((subject.cpu.registers.xmm[0], subject.cpu.control.pkru), (0, 0));
}

#[test]
fn xrstor_checks_the_header() {
    let rows = [
        ("nothing to restore", 0, 0, 0, Outcome::Done),
        ("a component that XCR0 has not", 4, 0, 0, PROTECTION),
        ("XCOMP_BV without the compacted bit", 0, 1, 0, PROTECTION),
        ("bytes that must be zero", 0, 0, 1, PROTECTION),
        ("compacted, a component outside XCOMP_BV", SSE, COMPACTED | 1, 0, PROTECTION),
        ("compacted", SSE, COMPACTED | 3, 0, Outcome::Done),
    ];
    for (rule, used, compacted, reserved, expected) in rows {
        let mut subject = subject(|a| a.xrstor(ptr(rbx)));
        subject.put(AREA + 24, 0x1F80);
        subject.put(HEADER, used);
        subject.put(HEADER + 8, compacted);
        subject.put(HEADER + 16, reserved);
        assert_eq!(subject.run(), expected, "{rule}");
    }
}

#[test]
fn restores_refuse_reserved_bits_of_mxcsr() {
    for code in [
        (|a| a.xrstor(ptr(rbx))) as Code,
        |a| a.fxrstor(ptr(rbx)),
        |a| a.ldmxcsr(dword_ptr(rbx + 24)),
    ] {
        let mut subject = subject(code);
        subject.put(AREA + 24, 1 << 16);
        subject.put(HEADER, SSE);
        assert_eq!(subject.run(), PROTECTION);
    }
}

#[test]
fn areas_are_aligned() {
    let rows: [(Code, u64, Outcome); 4] = [
        (|a| a.xsave(ptr(rbx)), 64, Outcome::Done),
        (|a| a.xsave(ptr(rbx)), 16, PROTECTION),
        (|a| a.fxsave(ptr(rbx)), 16, Outcome::Done),
        (|a| a.fxsave(ptr(rbx)), 8, PROTECTION),
    ];
    for (code, offset, expected) in rows {
        let mut subject = subject(code);
        subject.cpu.registers.gpr[3] = AREA + offset;
        assert_eq!(subject.run(), expected, "offset {offset}");
    }
}

#[test]
fn the_xsave_family_exists_under_cr4_osxsave() {
    let codes: [Code; 4] =
        [|a| a.xsave(ptr(rbx)), |a| a.xrstor(ptr(rbx)), |a| a.xgetbv(), |a| a.xsetbv()];
    for code in codes {
        let mut subject = subject(code);
        subject.cpu.control.switch_cr4(Cr4::OSXSAVE, false);
        assert_eq!(subject.run(), UNDEFINED);
    }
}

#[test]
fn supervisors_state_is_saved_in_ring_0_only() {
    for code in [(|a| a.xsaves(ptr(rbx))) as Code, |a| a.xrstors(ptr(rbx))] {
        let mut subject = Subject::with("zen4", Mode::User, code);
        subject.cpu.control.switch_cr4(Cr4::OSXSAVE, true);
        subject.cpu.registers.gpr[3] = USER + AREA;
        assert_eq!(subject.run(), PROTECTION);
    }
}

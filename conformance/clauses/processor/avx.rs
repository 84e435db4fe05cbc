//! AVX's rules beyond what single instructions compute: when they exist, what becomes of the high
//! halves, memory under masks, and the component of the XSAVE area.
//! [APM1 "Enabling Extended SSE Instruction Execution"] [SDM1 "Detection of AVX Instructions"]

use crate::layout::*;
use crate::subject::{Code, Mode, Outcome, PROTECTION, Subject, UNDEFINED, event};
use arch::control::{Cr0, Cr4, rflags};
use arch::segment::{Attributes, Segment};
use iced_x86::code_asm::*;

const AREA: u64 = SPARE;
const HEADER: u64 = AREA + 512;
/// XCOMP_BV's bit for the compacted form.
const COMPACTED: u64 = 1 << 63;
const AVX: u64 = 4;
const ALL: u64 = 7 | 1 << 9;
const LOW: u128 = 0x1111;
const HIGH: u128 = 0x2222_0000_3333;

/// A subject whose operating system has enabled everything, with RBX at AREA.
fn subject(model: &str, mode: Mode, code: Code) -> Subject {
    let mut subject = Subject::with(model, mode, code);
    subject.cpu.control.switch_cr4(Cr4::OSXSAVE | Cr4::PKE, true);
    subject.cpu.control.xcr0 = ALL;
    subject.cpu.registers.gpr[3] = AREA;
    for register in 0..16 {
        subject.cpu.registers.xmm[register] = LOW + register as u128;
        subject.cpu.registers.ymm_high[register] = HIGH + register as u128;
    }
    subject
}

fn long(code: Code) -> Subject {
    subject("zen4", Mode::Long, code)
}

#[test]
fn instructions_exist_if_the_model_has_them_and_the_system_enabled_their_state() {
    let add: Code = |a| a.vaddps(ymm0, ymm1, ymm2);
    let rows: [(&str, u64, bool, Code, Outcome); 11] = [
        ("zen4", ALL, true, add, Outcome::Done),
        ("zen4", 7, true, add, Outcome::Done),
        ("zen4", 3, true, add, UNDEFINED),
        ("zen4", ALL, false, add, UNDEFINED),
        ("zen4,-avx", ALL, true, add, UNDEFINED),
        ("generic", ALL, true, add, UNDEFINED),
        ("ivy-bridge-ep", 7, true, add, Outcome::Done),
        ("ivy-bridge-ep", 7, true, |a| a.vpaddb(ymm0, ymm1, ymm2), UNDEFINED),
        ("ivy-bridge-ep", 7, true, |a| a.vfmadd132ps(ymm0, ymm1, ymm2), UNDEFINED),
        ("haswell-ep", 7, true, |a| a.vfmadd132ps(ymm0, ymm1, ymm2), Outcome::Done),
        ("haswell-ep", 7, true, |a| a.vaesenc(ymm0, ymm1, ymm2), UNDEFINED),
    ];
    for (model, xcr0, has_osxsave, code, expected) in rows {
        let mut subject = subject(model, Mode::Long, code);
        subject.cpu.control.xcr0 = xcr0;
        subject.cpu.control.switch_cr4(Cr4::OSXSAVE, has_osxsave);
        assert_eq!(subject.run(), expected, "{model} {xcr0:#x} {has_osxsave}");
    }
}

#[test]
fn the_task_switched_flag_has_a_say_and_emulation_has_not() {
    for (flag, expected) in
        [(Cr0::TASK_SWITCHED, event(7, None, 0)), (Cr0::EMULATION, Outcome::Done)]
    {
        let mut subject = long(|a| a.vaddps(ymm0, ymm1, ymm2));
        let flags = subject.cpu.control.cr0() | flag;
        subject.cpu.control.set_cr0(flags);
        subject.refresh();
        assert_eq!(subject.run(), expected, "{flag:?}");
    }
}

#[test]
fn they_exist_in_every_protected_mode() {
    for mode in [Mode::User, Mode::Compatibility, Mode::Protected] {
        let mut subject = subject("zen4", mode, |a| a.vzeroupper());
        assert_eq!(subject.run(), Outcome::Done, "{mode:?}");
        let kept = if mode == Mode::User { 0 } else { HIGH + 8 };
        assert_eq!(subject.cpu.registers.ymm_high[7], 0, "{mode:?}");
        assert_eq!(subject.cpu.registers.ymm_high[8], kept, "{mode:?}: eight registers");
    }
}

#[test]
fn vex_prefixes_are_undefined_in_virtual_8086_mode() {
    let rows: [(Code, Outcome); 8] = [
        (|a| a.vaddps(xmm0, xmm1, xmm2), UNDEFINED),
        (|a| a.andn(eax, ecx, edx), UNDEFINED),
        (|a| a.blsr(eax, ecx), UNDEFINED),
        (|a| a.mulx(eax, ecx, edx), UNDEFINED),
        (|a| a.rorx(eax, ecx, 3), UNDEFINED),
        (|a| a.pdep(eax, ecx, edx), UNDEFINED),
        (|a| a.tzcnt(eax, ecx), Outcome::Done),
        (|a| a.lzcnt(eax, ecx), Outcome::Done),
    ];
    for (row, (code, expected)) in rows.into_iter().enumerate() {
        assert_eq!(subject("zen4", Mode::Protected, code).run(), Outcome::Done, "row {row}");
        let mut subject = subject("zen4", Mode::Protected, code);
        subject.cpu.registers.flags.set_bits(2 | rflags::VM | rflags::IOPL);
        let legacy = Segment { selector: 0, attributes: Attributes(0xF3), limit: 0xFFFF, base: 0 };
        subject.cpu.registers.set_segments([legacy; 6]);
        subject.cpu.registers.set_cpl(3);
        // Ring 0's stack: ESP0 and SS0.
        subject.put(TSS_A + 4, STACK | u64::from(FLAT) << 32);
        subject.refresh();
        assert_eq!(subject.run(), expected, "row {row}");
    }
}

#[test]
fn sse_keeps_the_high_half_and_avx_of_128_bits_clears_it() {
    let rows: [(Code, u128); 4] = [
        (|a| a.movaps(xmm0, xmm1), HIGH),
        (|a| a.paddb(xmm0, xmm1), HIGH),
        (|a| a.vmovaps(xmm0, xmm1), 0),
        (|a| a.vmovaps(ymm0, ymm1), HIGH + 1),
    ];
    for (row, (code, expected)) in rows.into_iter().enumerate() {
        let mut subject = long(code);
        assert_eq!(subject.run(), Outcome::Done);
        assert_eq!(subject.cpu.registers.ymm_high[0], expected, "row {row}");
    }
}

#[test]
fn only_moves_that_are_named_for_it_need_alignment() {
    let rows: [(Code, u64, Outcome); 6] = [
        (|a| a.vmovaps(ymm0, ymmword_ptr(rbx)), 16, PROTECTION),
        (|a| a.vmovaps(ymm0, ymmword_ptr(rbx)), 32, Outcome::Done),
        (|a| a.vmovaps(xmm0, xmmword_ptr(rbx)), 16, Outcome::Done),
        (|a| a.vmovaps(xmm0, xmmword_ptr(rbx)), 8, PROTECTION),
        (|a| a.vmovups(ymm0, ymmword_ptr(rbx)), 1, Outcome::Done),
        (|a| a.vaddps(ymm0, ymm1, ymmword_ptr(rbx)), 1, Outcome::Done),
    ];
    for (code, offset, expected) in rows {
        let mut subject = long(code);
        subject.cpu.registers.gpr[3] = AREA + offset;
        assert_eq!(subject.run(), expected, "offset {offset}");
    }
}

/// Not canonical: whatever is accessed there faults.
const NOWHERE: u64 = 1 << 60;

#[test]
fn lanes_that_a_mask_leaves_out_are_not_accessed() {
    let rows: [(Code, u128, Outcome); 4] = [
        (|a| a.vmaskmovps(ymm0, ymm1, ymmword_ptr(rbx)), 0, Outcome::Done),
        (|a| a.vmaskmovps(ymm0, ymm1, ymmword_ptr(rbx)), 1 << 31, PROTECTION),
        (|a| a.vpmaskmovq(ymmword_ptr(rbx), ymm1, ymm0), 0, Outcome::Done),
        (|a| a.vpmaskmovq(ymmword_ptr(rbx), ymm1, ymm0), 1 << 127, PROTECTION),
    ];
    for (row, (code, mask, expected)) in rows.into_iter().enumerate() {
        let mut subject = long(code);
        subject.cpu.registers.gpr[3] = NOWHERE;
        subject.cpu.registers.xmm[1] = mask;
        subject.cpu.registers.ymm_high[1] = 0;
        assert_eq!(subject.run(), expected, "row {row}");
    }
}

/// The third of four elements cannot be read: the first two have arrived, and the mask says which
/// are missing.
#[test]
fn gather_that_faults_keeps_what_it_has_and_goes_on_from_there() {
    let mut subject = long(|a| a.vpgatherqq_3(ymm0, qword_ptr(rbx + ymm1 * 1), ymm2));
    subject.put(AREA, 5);
    subject.put(AREA + 8, 6);
    let signs = (1u128 << 127) | (1 << 63);
    subject.cpu.registers.xmm[1] = 8 << 64;
    subject.cpu.registers.ymm_high[1] = u128::from(NOWHERE);
    (subject.cpu.registers.xmm[2], subject.cpu.registers.ymm_high[2]) = (signs, signs);
    let before = subject.cpu.registers.ymm_high[0];
    assert_eq!(subject.run(), PROTECTION);
    assert_eq!(subject.cpu.registers.xmm[0], 5 | 6 << 64);
    assert_eq!(subject.cpu.registers.ymm_high[0], before);
    let mask = (subject.cpu.registers.xmm[2], subject.cpu.registers.ymm_high[2]);
    assert_eq!(mask, (0, u128::MAX));
}

#[test]
fn gather_needs_three_different_registers() {
    let codes: [Code; 3] = [
        |a| a.vpgatherqq_3(ymm0, qword_ptr(rbx + ymm0 * 1), ymm2),
        |a| a.vpgatherqq_3(ymm0, qword_ptr(rbx + ymm1 * 1), ymm0),
        |a| a.vpgatherqq_3(ymm0, qword_ptr(rbx + ymm1 * 1), ymm1),
    ];
    for code in codes {
        assert_eq!(long(code).run(), UNDEFINED);
    }
}

/// About to save or restore all components.
fn saving(code: Code) -> Subject {
    let mut subject = long(code);
    subject.cpu.registers.gpr[0] = 0xFFFF_FFFF;
    subject.cpu.registers.gpr[2] = 0xFFFF_FFFF;
    subject.cpu.control.pkru = 0x5554;
    subject
}

#[test]
fn high_halves_are_a_component_behind_the_header() {
    let mut subject = saving(|a| a.xsave(ptr(rbx)));
    assert_eq!(subject.run(), Outcome::Done);
    assert_eq!(subject.get(HEADER) & AVX, AVX);
    assert_eq!(u128::from(subject.get(AREA + 576 + 16)), HIGH + 1);
    assert_eq!(subject.get(AREA + 832) as u32, 0x5554, "PKRU");
    let mut subject = saving(|a| a.xsavec(ptr(rbx)));
    assert_eq!(subject.run(), Outcome::Done);
    assert_eq!(subject.get(HEADER + 8), COMPACTED | ALL);
    assert_eq!(u128::from(subject.get(AREA + 576)), HIGH);
    assert_eq!(subject.get(AREA + 832) as u32, 0x5554, "PKRU behind them");
}

#[test]
fn zeros_are_not_in_use() {
    let mut subject = saving(|a| a.xsavec(ptr(rbx)));
    subject.cpu.registers.ymm_high = [0; 16];
    assert_eq!(subject.run(), Outcome::Done);
    assert_eq!(subject.get(HEADER) & AVX, 0);
    assert_eq!(subject.get(AREA + 832) as u32, 0x5554, "the place is there");
}

#[test]
fn high_halves_are_restored_or_cleared() {
    for (used, expected) in [(AVX, 0x77), (0, 0)] {
        let mut subject = saving(|a| a.xrstor(ptr(rbx)));
        subject.put(AREA + 24, 0x1F80);
        subject.put(HEADER, used);
        subject.put(AREA + 576 + 16 * 15, 0x77);
        assert_eq!(subject.run(), Outcome::Done);
        assert_eq!(subject.cpu.registers.ymm_high[15], expected, "{used}");
        assert_eq!(subject.cpu.registers.ymm_high[0], 0, "{used}");
    }
}

/// Compacted, PKRU lies right behind the header if the area has no AVX.
#[test]
fn places_follow_from_the_area_and_not_from_what_is_wanted() {
    let mut subject = saving(|a| a.xrstor(ptr(rbx)));
    subject.put(AREA + 24, 0x1F80);
    subject.put(HEADER, 1 << 9);
    subject.put(HEADER + 8, COMPACTED | 1 << 9);
    subject.put(AREA + 576, 0x1234);
    assert_eq!(subject.run(), Outcome::Done);
    assert_eq!(subject.cpu.control.pkru, 0x1234);
    assert_eq!(subject.cpu.registers.ymm_high, [0; 16]);
}

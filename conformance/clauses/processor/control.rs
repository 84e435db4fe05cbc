//! What control registers, XCR0 and model-specific registers accept.
//! [APM2 "System-Control Registers"] [APM2 "Model-Specific Registers"]

use crate::layout::*;
use crate::subject::{Code, Mode, Outcome, PROTECTION, Subject, UNDEFINED};
use arch::control::{Cr4, Efer};
use iced_x86::code_asm::*;

const PE: u64 = 1;
const NW: u64 = 1 << 29;
const CD: u64 = 1 << 30;
const PG: u64 = 1 << 31;

/// One register, written with RAX.
fn check(model: &str, mode: Mode, code: Code, rows: &[(u64, bool)]) {
    for (value, is_accepted) in rows {
        let mut subject = Subject::with(model, mode, code);
        subject.cpu.registers.gpr[0] = *value;
        let expected = if *is_accepted { Outcome::Done } else { PROTECTION };
        assert_eq!(subject.run(), expected, "{model} {value:#x}");
    }
}

#[test]
fn cr0_refuses_what_contradicts_itself_and_bits_above_31() {
    let rows = [
        (PG | PE, true),
        (PG | PE | CD, true),
        (PG | PE | CD | NW, true),
        (PG | PE | NW, false),
        (PG, false),
        (PG | PE | 1 << 32, false),
        // Undefined bits of the lower half are ignored.
        (PG | PE | 1 << 10, true),
    ];
    check("zen4", Mode::Long, |a| a.mov(cr0, rax), &rows);
}

#[test]
fn cr0_pg_does_not_go_while_long_mode_runs_64_bit_code() {
    check("zen4", Mode::Long, |a| a.mov(cr0, rax), &[(PE, false)]);
}

#[test]
fn cr4_refuses_bits_that_the_model_has_not() {
    let pae = Cr4::PAE.bits();
    let rows = [
        (pae, true),
        (pae | Cr4::OSFXSR.bits() | Cr4::PGE.bits() | Cr4::SMEP.bits(), true),
        (0, false),
        (pae | 1 << 15, false),
        (pae | 1 << 32, false),
        // Not implemented, so reserved.
        (pae | Cr4::LA57.bits(), false),
        (pae | Cr4::VMXE.bits(), false),
        (pae | Cr4::CET.bits(), false),
    ];
    check("zen4", Mode::Long, |a| a.mov(cr4, rax), &rows);
    let lacking =
        [Cr4::SMEP, Cr4::SMAP, Cr4::PKE, Cr4::OSXSAVE, Cr4::UMIP, Cr4::FSGSBASE, Cr4::PCIDE];
    for bit in lacking {
        check("generic", Mode::Long, |a| a.mov(cr4, rax), &[(pae | bit.bits(), false)]);
        check("zen4", Mode::Long, |a| a.mov(cr4, rax), &[(pae | bit.bits(), true)]);
    }
}

/// [APM2 "Process Context Identifiers"] [SDM3 "Process-Context Identifiers (PCIDs)"]
#[test]
fn cr4_pcide_wants_pcid_zero_and_keeps_paging_on() {
    let set: Code = |a| {
        a.mov(cr3, rbx)?;
        a.mov(cr4, rax)
    };
    for (pcid, expected) in [(0, Outcome::Done), (5, crate::subject::event(13, Some(0), 3))] {
        let mut subject = Subject::with("zen4", Mode::Long, set);
        subject.cpu.registers.gpr[0] = (Cr4::PAE | Cr4::PCIDE).bits();
        subject.cpu.registers.gpr[3] = ROOT | pcid;
        assert_eq!(subject.run(), expected, "PCID {pcid}");
    }
    let mut kept = Subject::with("zen4", Mode::Long, |a| a.mov(cr3, rax));
    kept.cpu.control.switch_cr4(Cr4::PCIDE, true);
    kept.cpu.registers.gpr[0] = ROOT | 7 | 1 << 63;
    assert_eq!(kept.run(), Outcome::Done);
    assert_eq!(
        kept.cpu.control.cr3,
        ROOT | 7,
        "bit 63 asks to keep translations and is not kept itself"
    );
}

#[test]
fn cr3_has_no_address_bits_beyond_the_part() {
    let rows = [(ROOT, true), (ROOT | 1 << 52, false), (ROOT | 1 << 63, false)];
    check("zen4", Mode::Long, |a| a.mov(cr3, rax), &rows);
}

#[test]
fn cr8_has_four_bits() {
    check("zen4", Mode::Long, |a| a.mov(cr8, rax), &[(15, true), (16, false), (1 << 63, false)]);
}

#[test]
fn debug_registers_have_no_upper_half() {
    for code in [(|a| a.mov(dr6, rax)) as Code, |a| a.mov(dr7, rax)] {
        check("zen4", Mode::Long, code, &[(0, true), (0xFFFF_FFFF, true), (1 << 32, false)]);
    }
}

#[test]
fn dr4_and_dr5_are_dr6_and_dr7_unless_cr4_de() {
    for (extensions, expected) in [(false, Outcome::Done), (true, UNDEFINED)] {
        let mut subject = Subject::with("zen4", Mode::Long, |a| a.mov(rax, dr4));
        subject.cpu.control.switch_cr4(Cr4::DE, extensions);
        assert_eq!(subject.run(), expected, "DE {extensions}");
    }
}

const WRITE: Code = |a| a.wrmsr();

/// Writes an MSR and tells whether it was accepted.
fn writes(model: &str, msr: u32, value: u64) -> bool {
    let mut subject = Subject::with(model, Mode::Long, WRITE);
    subject.cpu.registers.gpr[1] = msr.into();
    subject.cpu.registers.gpr[0] = value & 0xFFFF_FFFF;
    subject.cpu.registers.gpr[2] = value >> 32;
    match subject.run() {
        Outcome::Done => true,
        PROTECTION => false,
        other => panic!("MSR {msr:#x}: {other:?}"),
    }
}

#[test]
fn msrs_accept_what_their_descriptions_say() {
    const NOT_CANONICAL: u64 = 1 << 47;
    let active = (Efer::LONG_MODE_ENABLE | Efer::LONG_MODE_ACTIVE).bits();
    let rows = [
        ("EFER", arch::msr::EFER, active | 1, true),
        ("EFER, reserved bit", arch::msr::EFER, active | 1 << 7, false),
        ("EFER.LME under paging", arch::msr::EFER, 1, false),
        ("LSTAR", arch::msr::LSTAR, 0x1234, true),
        ("LSTAR, not canonical", arch::msr::LSTAR, NOT_CANONICAL, false),
        ("FS.base, not canonical", arch::msr::FS_BASE, NOT_CANONICAL, false),
        ("KernelGSbase, not canonical", arch::msr::KERNEL_GS_BASE, NOT_CANONICAL, false),
        ("PAT", arch::msr::PAT, 0x0007_0406_0007_0406, true),
        ("PAT, type 2", arch::msr::PAT, 2, false),
        ("PAT, type 3 in the last field", arch::msr::PAT, 3 << 56, false),
        ("MTRRdefType", arch::msr::MTRR_DEF_TYPE, 0xC06, true),
        ("MTRRdefType, type 2", arch::msr::MTRR_DEF_TYPE, 0xC02, false),
        ("MTRRdefType, type 7", arch::msr::MTRR_DEF_TYPE, 0xC07, false),
        ("MTRR_FIX_64K, type 5", 0x250, 0x0505_0505_0505_0505, true),
        ("MTRR_FIX_64K, type 7", 0x250, 7 << 8, false),
        ("MC0_STATUS is cleared", 0x401, 0, true),
        ("MC0_STATUS is not set", 0x401, 1, false),
        ("MTRRcap is read-only", arch::msr::MTRR_CAP, 0, false),
        ("no such register", 0x0000_1234, 0, false),
        ("no such register of AMD's", 0xC001_0FFF, 0, false),
    ];
    for (rule, msr, value, is_accepted) in rows {
        assert_eq!(writes("zen4", msr, value), is_accepted, "{rule}");
    }
}

#[test]
fn msrs_of_features_that_a_model_lacks_do_not_exist() {
    for (msr, value, models) in [
        (arch::msr::XSS, 0, [("zen4", true), ("generic", false)]),
        (arch::msr::MISC_ENABLE, 1, [("generic-intel", true), ("zen4", false)]),
        (0xC001_0010, 0, [("zen4", true), ("generic-intel", false)]),
    ] {
        for (model, exists) in models {
            assert_eq!(writes(model, msr, value), exists, "{model}, MSR {msr:#x}");
        }
    }
}

#[test]
fn the_time_stamp_counter_and_its_adjustment_move_together() {
    let mut subject = Subject::with("generic-intel", Mode::Long, |a| a.wrmsr());
    subject.cpu.registers.gpr[1] = arch::msr::TSC.into();
    subject.cpu.registers.gpr[2] = 1;
    assert_eq!(subject.run(), Outcome::Done);
    // Nothing has taken longer than this since reset.
    const SOON: u64 = 100_000;
    let (tsc, adjustment) = (subject.cpu.clock.tsc(), subject.cpu.control.msr.tsc_adjust);
    assert!((1 << 32..(1 << 32) + SOON).contains(&tsc), "{tsc}");
    assert!(((1 << 32) - SOON..=1 << 32).contains(&adjustment), "{adjustment}");
}

/// [APM2 "XCR0 Register"] [APM3 "XSETBV"]
#[test]
fn xcr0_takes_components_that_exist_in_sensible_sets() {
    for (xcr, value, expected) in [
        (0, 1, Outcome::Done),
        (0, 3, Outcome::Done),
        (0, 3 | 1 << 9, Outcome::Done),
        (0, 0, PROTECTION),
        (0, 2, PROTECTION),
        (0, 7, Outcome::Done),
        (0, 5, PROTECTION),
        // AVX-512 is not implemented.
        (0, 0xE7, PROTECTION),
        (1, 1, PROTECTION),
    ] {
        let mut subject = Subject::with("zen4", Mode::Long, |a| a.xsetbv());
        subject.cpu.control.switch_cr4(Cr4::OSXSAVE, true);
        subject.cpu.registers.gpr[0] = value;
        subject.cpu.registers.gpr[1] = xcr;
        assert_eq!(subject.run(), expected, "XCR{xcr} = {value:#x}");
    }
}

#[test]
fn fsgsbase_needs_its_control_bit_and_canonical_addresses() {
    for (is_on, value, expected) in [
        (false, 0, UNDEFINED),
        (true, 0x7FFF_0000_0000, Outcome::Done),
        (true, 1 << 47, PROTECTION),
    ] {
        let mut subject = Subject::with("zen4", Mode::User, |a| a.wrfsbase(rax));
        subject.cpu.control.switch_cr4(Cr4::FSGSBASE, is_on);
        subject.cpu.registers.gpr[0] = value;
        assert_eq!(subject.run(), expected, "{is_on} {value:#x}");
    }
}

#[test]
fn invpcid_knows_four_types() {
    for (kind, pcid, address, expected) in [
        (0, 1, 0x1000, Outcome::Done),
        (1, 1, 0, Outcome::Done),
        (2, 0, 0, Outcome::Done),
        (3, 0, 0, Outcome::Done),
        (4, 0, 0, PROTECTION),
        (0, 1 << 12, 0, PROTECTION),
        (0, 1, 1 << 47, PROTECTION),
    ] {
        let mut subject = Subject::with("zen4", Mode::Long, |a| a.invpcid(rax, xmmword_ptr(DATA)));
        subject.cpu.control.switch_cr4(Cr4::PCIDE, true);
        subject.put(DATA, pcid);
        subject.put(DATA + 8, address);
        subject.cpu.registers.gpr[0] = kind;
        assert_eq!(subject.run(), expected, "type {kind}, {pcid:#x}, {address:#x}");
    }
}

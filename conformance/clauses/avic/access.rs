//! Accesses to the APIC's registers. [APM2 "Guest vAPIC Register Access Behavior"]

use crate::machine::{avic, memory, page, requested, send};
use arch::apic::Icr;
use arch::svm::avic::{NoAcceleration, register};
use virtual_apic::avic::AvicMode::{X2apic, Xapic};
use virtual_apic::avic::{
    IpiOutcome, IrregularAccess, ReadOnlyMsrWrite, ReadOutcome, WriteOutcome,
};

fn exit(offset: u16, is_write: bool) -> NoAcceleration {
    NoAcceleration { offset, is_write, vector: 0 }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    /// Served from the page.
    A,
    /// Trap: exit after the store.
    T,
    /// Fault: exit before the store.
    F,
    /// Has an effect of its own.
    Special,
}

/// The manual's table, typed again: (first, last, read, write).
const TABLE: &[(u16, u16, Rule, Rule)] = {
    use Rule::*;
    &[
        (0x000, 0x010, A, A),
        (0x020, 0x020, A, T),
        (0x030, 0x030, A, F),
        (0x040, 0x070, A, A),
        (0x080, 0x080, A, Special),
        (0x090, 0x090, F, F),
        (0x0A0, 0x0A0, A, F),
        (0x0B0, 0x0B0, A, Special),
        (0x0C0, 0x0F0, A, T),
        (0x100, 0x170, A, F),
        (0x180, 0x1F0, A, F),
        (0x200, 0x270, A, F),
        (0x280, 0x280, A, T),
        (0x290, 0x2F0, A, A),
        (0x300, 0x300, A, Special),
        (0x310, 0x310, A, A),
        (0x320, 0x370, A, T),
        (0x380, 0x380, A, T),
        (0x390, 0x390, F, F),
        (0x3A0, 0x3D0, A, A),
        (0x3E0, 0x3E0, A, T),
        (0x3F0, 0x3F0, A, A),
        (0x400, 0x420, F, F),
        (0x430, 0x470, A, A),
        (0x480, 0x4F0, F, F),
        (0x500, 0xFF0, F, F),
    ]
};

#[test]
fn each_register_of_the_page_follows_the_table() {
    let mut covered = 0;
    for &(first, last, read, write) in TABLE {
        for offset in (first..=last).step_by(16) {
            covered += 1;
            let mut memory = memory(Xapic, &[]);
            page(0).set_register(&mut memory, offset, 0x1234_5678);
            let mut avic = avic(Xapic);
            let outcome = avic.read_page(&mut memory, offset, 4);
            match read {
                Rule::F => assert_eq!(outcome, ReadOutcome::Fault(exit(offset, false))),
                _ => assert_eq!(outcome, ReadOutcome::Value(0x1234_5678), "{offset:#x}"),
            }
            let outcome = avic.write_page(&mut memory, offset, 4, 0xFFFF_FFFF_0000_0055);
            let stored = page(0).register(&memory, offset);
            match write {
                Rule::A => assert_eq!((outcome, stored), (WriteOutcome::Done, 0x55)),
                Rule::T => {
                    assert_eq!((outcome, stored), (WriteOutcome::Trap(exit(offset, true)), 0x55));
                }
                Rule::F => {
                    let expected = (WriteOutcome::Fault(exit(offset, true)), 0x1234_5678);
                    assert_eq!((outcome, stored), expected, "{offset:#x}");
                }
                Rule::Special => {
                    let expected = match offset {
                        register::TASK_PRIORITY => (WriteOutcome::Evaluate, 0x55),
                        // No vector is in service, and the value goes nowhere.
                        register::END_OF_INTERRUPT => (WriteOutcome::Done, 0x1234_5678),
                        _ => (WriteOutcome::Send(Icr::from_dwords(0x55, 0)), 0x55),
                    };
                    assert_eq!((outcome, stored), expected, "{offset:#x}");
                }
            }
        }
    }
    assert_eq!(covered, 256, "every register of the page");
}

#[test]
fn extended_lvts_trap_where_that_is_enumerated() {
    let mut avic = avic(Xapic);
    avic.extended_lvt_change = true;
    let mut memory = memory(Xapic, &[]);
    assert_eq!(avic.read_page(&mut memory, 0x530, 4), ReadOutcome::Value(0));
    let outcome = avic.write_page(&mut memory, 0x530, 4, 7);
    assert_eq!(outcome, WriteOutcome::Trap(exit(0x530, true)));
    assert_eq!(page(0).register(&memory, 0x530), 7);
}

#[test]
fn writes_that_are_not_aligned_dwords_fault() {
    let rows = [(0x080, 1), (0x080, 2), (0x080, 8), (0x082, 4), (0x304, 4), (0x3E1, 1)];
    for (offset, size) in rows {
        let mut memory = memory(Xapic, &[]);
        let mut avic = avic(Xapic);
        let before = memory.clone();
        let outcome = avic.write_page(&mut memory, offset, size, 0x77);
        assert_eq!(outcome, WriteOutcome::Fault(exit(offset & 0xFF0, true)));
        assert_eq!(memory, before);
        avic.behaviour.irregular_write = IrregularAccess::Memory;
        assert_eq!(avic.write_page(&mut memory, offset, size, 0x77), WriteOutcome::Done);
        assert_eq!(avic.read_page(&mut memory, offset, 1), ReadOutcome::Value(0x77));
    }
}

#[test]
fn reads_that_are_not_aligned_dwords_read_the_page() {
    let mut memory = memory(Xapic, &[]);
    page(0).set_register(&mut memory, 0x080, 0x4433_2211);
    page(0).set_register(&mut memory, 0x084, 0x8877_6655);
    let mut avic = avic(Xapic);
    let rows = [(0x080, 1, 0x11), (0x081, 2, 0x3322), (0x082, 4, 0x6655_4433)];
    for (offset, size, value) in rows {
        assert_eq!(avic.read_page(&mut memory, offset, size), ReadOutcome::Value(value));
    }
    assert_eq!(avic.read_page(&mut memory, 0x080, 8), ReadOutcome::Value(0x8877_6655_4433_2211));
    assert_eq!(avic.read_page(&mut memory, 0x392, 1), ReadOutcome::Fault(exit(0x390, false)));
    avic.behaviour.irregular_read = IrregularAccess::Fault;
    assert_eq!(avic.read_page(&mut memory, 0x081, 1), ReadOutcome::Fault(exit(0x080, false)));
}

#[test]
fn the_icr_is_in_the_page_before_its_exit() {
    let mut memory = memory(Xapic, &[(3, None)]);
    let mut avic = avic(Xapic);
    let high = avic.write_page(&mut memory, register::INTERRUPT_COMMAND_HIGH, 4, 3 << 24);
    assert_eq!(high, WriteOutcome::Done);
    let low = avic.write_page(&mut memory, register::INTERRUPT_COMMAND_LOW, 4, 0x40FD);
    let WriteOutcome::Send(ipi) = low else { panic!("{low:?}") };
    assert_eq!(page(0).register(&memory, register::INTERRUPT_COMMAND_LOW), 0x40FD);
    let (IpiOutcome::Exit(exit), _) = send(&avic, &mut memory, ipi) else { panic!("no exit") };
    assert_eq!(exit.into_exit_info(), [0x0300_0000_0000_40FD, 0x1_0000_0003]);
}

#[test]
fn the_x2apic_icr_is_split_over_300h_and_310h() {
    let mut memory = memory(X2apic, &[(3, Some(3))]);
    let mut avic = avic(X2apic);
    let outcome = avic.write_msr(&mut memory, 0x830, 0x0000_0003_0000_40FD);
    assert!(matches!(outcome, WriteOutcome::Send(_)));
    assert_eq!(page(0).register(&memory, 0x300), 0x40FD);
    assert_eq!(page(0).register(&memory, 0x310), 3);
    assert_eq!(page(0).register(&memory, 0x304), 0);
    assert_eq!(avic.read_msr(&mut memory, 0x830), ReadOutcome::Value(0x0000_0003_0000_40FD));
}

#[test]
fn the_x2apic_icr_is_64_bits_at_300h_where_the_model_keeps_it_whole() {
    let mut memory = memory(X2apic, &[(3, Some(3))]);
    let mut avic = avic(X2apic);
    avic.behaviour.x2avic_icr_is_whole = true;
    let WriteOutcome::Send(ipi) = avic.write_msr(&mut memory, 0x830, 0x0000_0003_0000_40FD) else {
        panic!("an IPI")
    };
    assert_eq!(ipi.destination(), 3);
    let [low, high, other] = [0x300, 0x304, 0x310].map(|at| page(0).register(&memory, at));
    assert_eq!((low, high, other), (0x40FD, 3, 0));
    assert_eq!(avic.read_msr(&mut memory, 0x830), ReadOutcome::Value(0x0000_0003_0000_40FD));
}

#[test]
fn busy_is_reported_clear_unless_the_model_leaves_it_set() {
    for leaves in [false, true] {
        let mut memory = memory(Xapic, &[]);
        let mut avic = avic(Xapic);
        avic.behaviour.leaves_busy_set = leaves;
        avic.write_page(&mut memory, 0x300, 4, if leaves { 0x40FD } else { 0x50FD });
        let expected = if leaves { 0x50FD } else { 0x40FD };
        assert_eq!(page(0).register(&memory, 0x300), expected);
    }
}

#[test]
fn x2apic_registers_that_do_not_exist_raise_gp() {
    for msr in 0x800..=0x8FF {
        let is_read_only =
            matches!(msr, 0x802 | 0x803 | 0x80A | 0x80D | 0x810..=0x827 | 0x839 | 0x840);
        let is_write_only = matches!(msr, 0x80B | 0x83F | 0x842);
        let is_both = matches!(msr, 0x808 | 0x80F | 0x828 | 0x830 | 0x832..=0x838 | 0x83E
            | 0x841 | 0x848..=0x857);
        let mut memory = memory(X2apic, &[]);
        let mut avic = avic(X2apic);
        let is_readable = avic.read_msr(&mut memory, msr) != ReadOutcome::GeneralProtection;
        assert_eq!(is_readable, is_read_only || is_both, "read of {msr:#x}");
        let is_writable = avic.write_msr(&mut memory, msr, 0) != WriteOutcome::GeneralProtection;
        assert_eq!(is_writable, is_write_only || is_both, "write of {msr:#x}");
    }
}

#[test]
fn x2apic_reserved_bits_and_upper_halves_raise_gp() {
    let rows = [
        (0x808, 0xF0, true),
        (0x808, 0x100, false),
        (0x808, 0x1_0000_0000, false),
        (0x80B, 0, true),
        (0x80B, 1, false),
        (0x828, 0, true),
        (0x828, 1, false),
        (0x830, 0x0000_0000_0000_40FD, true),
        (0x830, 0x0000_0000_0000_50FD, false),
        (0x830, 0x0000_0000_0000_60FD, false),
        (0x830, 0x0000_0000_0001_40FD, false),
        (0x830, 0x0000_0000_0010_40FD, false),
        (0x832, 0x2_00EC, true),
        (0x832, 0x4_00EC, false),
        (0x838, 0xFFFF_FFFF, true),
        (0x838, 0x1_0000_0000, false),
        (0x83F, 0xFD, true),
        (0x83F, 0x100, false),
    ];
    for (msr, value, is_legal) in rows {
        let mut memory = memory(X2apic, &[(0, Some(0))]);
        let outcome = avic(X2apic).write_msr(&mut memory, msr, value);
        let is_refused = outcome == WriteOutcome::GeneralProtection;
        assert_eq!(is_refused, !is_legal, "{msr:#x} {value:#x}");
    }
}

#[test]
fn x2apic_read_only_registers_raise_gp_before_avic_sees_the_write() {
    for msr in [0x802, 0x803, 0x80A, 0x80D, 0x810, 0x818, 0x820, 0x839] {
        let mut memory = memory(X2apic, &[]);
        let mut avic = avic(X2apic);
        assert_eq!(avic.write_msr(&mut memory, msr, 0), WriteOutcome::GeneralProtection);
        avic.behaviour.read_only_msr_write = ReadOnlyMsrWrite::NoAcceleration;
        let offset = ((msr - 0x800) << 4) as u16;
        let outcome = avic.write_msr(&mut memory, msr, 0);
        assert_eq!(outcome, WriteOutcome::Fault(exit(offset, true)));
    }
}

#[test]
fn x2apic_accesses_follow_the_page_s_table() {
    let mut memory = memory(X2apic, &[]);
    let mut avic = avic(X2apic);
    page(0).set_register(&mut memory, 0x0D0, 0x0001_0004);
    assert_eq!(avic.read_msr(&mut memory, 0x80D), ReadOutcome::Value(0x0001_0004));
    assert_eq!(avic.read_msr(&mut memory, 0x839), ReadOutcome::Fault(exit(0x390, false)));
    assert_eq!(avic.read_msr(&mut memory, 0x80B), ReadOutcome::GeneralProtection);
    assert_eq!(avic.read_msr(&mut memory, 0x83F), ReadOutcome::GeneralProtection);
    avic.behaviour.eoi_read_is_refused = false;
    assert_eq!(avic.read_msr(&mut memory, 0x80B), ReadOutcome::Value(0));
    for (msr, offset, value) in [(0x80F, 0x0F0, 0x1FF), (0x838, 0x380, 5), (0x83E, 0x3E0, 0xB)] {
        let outcome = avic.write_msr(&mut memory, msr, value);
        assert_eq!(outcome, WriteOutcome::Trap(exit(offset, true)), "{msr:#x}");
        assert_eq!(page(0).register(&memory, offset), value as u32);
    }
    let outcome = avic.write_msr(&mut memory, 0x842, 0x31);
    assert_eq!(outcome, WriteOutcome::Fault(exit(0x420, true)));
}

#[test]
fn self_ipi_register_exists_in_x2apic_mode_only() {
    let mut memory = memory(X2apic, &[(0, None)]);
    let avic_x2 = &mut avic(X2apic);
    let outcome = avic_x2.write_msr(&mut memory, 0x83F, 0x41);
    let WriteOutcome::Send(ipi) = outcome else { panic!("{outcome:?}") };
    send(avic_x2, &mut memory, ipi);
    assert_eq!(requested(&memory, &[0], 0x41), [0]);
    let outcome = avic(Xapic).write_page(&mut memory, 0x3F0, 4, 0x42);
    assert_eq!(outcome, WriteOutcome::Done);
    assert!(!page(0).is_requested(&memory, 0x42));
}

//! Accesses by MSR. [SDM3 "Virtualizing MSR-Based APIC Accesses"]

use crate::machine::{
    Memory, X2APIC, apicv, contains, control_sets, insert, register, set_register,
};
use arch::identity::Vector;
use interrupt::page::Bank;
use virtual_apic::apicv::{ApicvControls, ApicvExit, Completion, HoleRead, MsrRead, MsrWrite};

const DONE: MsrWrite = MsrWrite::Virtualized(Completion::Done);

#[test]
fn each_msr_reads_eight_bytes_of_the_page_with_register_virtualization_and_tpr_without() {
    let mut memory = Memory::default();
    for offset in (0..0x1000).step_by(8) {
        set_register(&mut memory, offset, u32::from(offset) | 0xA000_0000);
        set_register(&mut memory, offset + 4, u32::from(offset) | 0xB000_0000);
    }
    for controls in control_sets() {
        for msr in 0x800..=0x8FF {
            let at = (msr as u16 & 0xFF) << 4;
            let page =
                u64::from(register(&memory, at + 4)) << 32 | u64::from(register(&memory, at));
            let is_virtualized =
                controls.virtualizes_x2apic && (controls.virtualizes_registers || msr == 0x808);
            let expected =
                if is_virtualized { MsrRead::Virtualized(page) } else { MsrRead::Ordinary };
            let outcome = apicv(controls).read_msr(&mut memory, msr);
            assert_eq!(outcome, expected, "{msr:#x} {controls:?}");
        }
    }
}

#[test]
fn other_msrs_are_none_of_apic_virtualizations() {
    let (mut memory, mut apicv) = (Memory::default(), apicv(X2APIC));
    for msr in [0, 0x7FF, 0x900, 0x6E0, u32::MAX] {
        assert_eq!(apicv.read_msr(&mut memory, msr), MsrRead::Ordinary, "{msr:#x}");
        assert_eq!(apicv.write_msr(&mut memory, msr, 0), MsrWrite::Ordinary, "{msr:#x}");
    }
}

#[test]
fn reads_of_what_is_no_register_can_fault() {
    let mut memory = Memory::default();
    let mut apicv = apicv(X2APIC);
    apicv.behaviour.hole_read = HoleRead::GeneralProtection;
    // The manual's table of x2APIC registers has no others.
    let registers = |msr| {
        matches!(msr, 0x802 | 0x803 | 0x808 | 0x80A | 0x80B | 0x80D | 0x80F | 0x810..=0x828 | 0x82F
            | 0x830 | 0x832..=0x839 | 0x83E | 0x83F)
    };
    for msr in 0x800..=0x8FF {
        let expected =
            if registers(msr) { MsrRead::Virtualized(0) } else { MsrRead::GeneralProtection };
        assert_eq!(apicv.read_msr(&mut memory, msr), expected, "{msr:#x}");
    }
}

#[test]
fn four_msrs_are_virtualized_for_writing_each_under_its_control() {
    for controls in control_sets() {
        for msr in 0x800..=0x8FF {
            let is_virtualized = controls.virtualizes_x2apic
                && match msr {
                    0x808 => true,
                    0x80B | 0x83F => controls.delivers_interrupts,
                    0x830 => controls.virtualizes_ipis,
                    _ => false,
                };
            let mut memory = Memory::default();
            let outcome = apicv(controls).write_msr(&mut memory, msr, 0);
            assert_eq!(outcome == MsrWrite::Ordinary, !is_virtualized, "{msr:#x} {controls:?}");
        }
    }
}

#[test]
fn each_reserved_bit_of_a_virtualized_write_faults_and_stores_nothing() {
    for (msr, legal) in [(0x808, 0xFFu64), (0x80B, 0), (0x83F, 0xFF)] {
        for bit in (0..64).map(|n| 1u64 << n) {
            let mut memory = Memory::default();
            let outcome = apicv(X2APIC).write_msr(&mut memory, msr, bit);
            let is_refused = outcome == MsrWrite::GeneralProtection;
            assert_eq!(is_refused, legal & bit == 0, "{msr:#x} {bit:#x}");
            assert!(!is_refused || memory == Memory::default());
        }
    }
}

#[test]
fn a_task_priority_is_stored_and_virtualized() {
    let (mut memory, mut apicv) = (Memory::default(), apicv(X2APIC));
    insert(&mut memory, Bank::Request, 0x41);
    apicv.status.set_requesting(0x41);
    assert_eq!(apicv.write_msr(&mut memory, 0x808, 0x4F), DONE);
    assert_eq!((register(&memory, 0x080), register(&memory, 0x0A0)), (0x4F, 0x4F));
    assert!(!apicv.is_recognized);
    assert_eq!(apicv.write_msr(&mut memory, 0x808, 0x3F), DONE);
    assert!(apicv.is_recognized);
}

#[test]
fn a_task_priority_below_the_threshold_exits_without_virtual_interrupt_delivery() {
    let controls = ApicvControls { delivers_interrupts: false, ..X2APIC };
    let (mut memory, mut apicv) = (Memory::default(), apicv(controls));
    apicv.tpr_threshold = 5;
    let exit = MsrWrite::Virtualized(Completion::Exit(ApicvExit::TprBelowThreshold));
    assert_eq!(apicv.write_msr(&mut memory, 0x808, 0x4F), exit);
    assert_eq!(register(&memory, 0x080), 0x4F);
    assert_eq!(apicv.write_msr(&mut memory, 0x808, 0x50), DONE);
}

#[test]
fn an_eoi_ends_the_interrupt_in_service() {
    let (mut memory, mut apicv) = (Memory::default(), apicv(X2APIC));
    insert(&mut memory, Bank::InService, 0x51);
    apicv.status.set_servicing(0x51);
    apicv.eoi_exits.insert(Vector(0x51));
    let exit = MsrWrite::Virtualized(Completion::Exit(ApicvExit::VirtualizedEoi(Vector(0x51))));
    assert_eq!(apicv.write_msr(&mut memory, 0x80B, 0), exit);
    assert!(!contains(&memory, Bank::InService, 0x51));
}

#[test]
fn an_ipi_to_itself_is_requested_or_exits_if_its_vector_is_illegal() {
    for is_stored in [false, true] {
        for vector in 0..=0xFF {
            let (mut memory, mut apicv) = (Memory::default(), apicv(X2APIC));
            apicv.behaviour.stores_self_ipi = is_stored;
            let outcome = apicv.write_msr(&mut memory, 0x83F, vector.into());
            let stored = register(&memory, 0x3F0);
            if vector < 16 {
                let exit = Completion::Exit(ApicvExit::ApicWrite(0x3F0));
                assert_eq!((outcome, stored), (MsrWrite::Virtualized(exit), vector.into()));
                assert!(!contains(&memory, Bank::Request, vector));
            } else {
                assert_eq!(outcome, DONE);
                assert_eq!(stored, if is_stored { vector.into() } else { 0 });
                assert!(contains(&memory, Bank::Request, vector));
                assert_eq!((apicv.status.requesting(), apicv.is_recognized), (vector, true));
            }
        }
    }
}

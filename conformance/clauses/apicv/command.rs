//! Which values of the interrupt command register are virtualized, by memory and by MSR.
//! [SDM3 "APIC-Write Emulation"] [SDM3 "Virtualizing MSR-Based APIC Accesses"]

use crate::machine::{Memory, X2APIC, XAPIC, apicv, contains, register, set_register};
use arch::apic::{Icr, Scope};
use arch::identity::Vector;
use arch::vmx::apicv::NotificationControl;
use interrupt::page::Bank;
use virtual_apic::apicv::{Apicv, ApicvControls, ApicvExit, Completion, IpiSend, MsrWrite};

/// Every combination of the fields of the low half that decide, reserved bits one at a time.
fn commands() -> impl Iterator<Item = u32> {
    // Delivery mode, destination mode, status, level, trigger mode, shorthand.
    let forms = (0..1u32 << 9).map(|bits| {
        bits & 7
            | (bits >> 3 & 1) << 3
            | (bits >> 4 & 1) << 4
            | (bits >> 5 & 3) << 6
            | (bits >> 7 & 3) << 10
    });
    let reserved = [0, 13, 16, 17, 20, 25, 31].map(|bit| if bit == 0 { 0 } else { 1u32 << bit });
    forms.flat_map(move |form| {
        reserved.into_iter().flat_map(move |extra| {
            [0, 0x0F, 0x10, 0x6A, 0xFF].map(|vector| form << 8 | extra | vector)
        })
    })
}

/// Bits 18 to 10 and 8 of a command, by the manual's numbers.
fn is_plain(low: u32, with_status: bool) -> bool {
    let is_fixed = low >> 8 & 7 == 0;
    let is_edge = low >> 15 & 1 == 0;
    is_fixed && is_edge && !(with_status && low >> 12 & 1 != 0)
}

fn has_reserved(low: u32) -> bool {
    low >> 20 != 0 || low >> 16 & 3 != 0 || low >> 13 & 1 != 0
}

fn write_by_memory(apicv: &mut Apicv, memory: &mut Memory, low: u32) -> Completion {
    assert_eq!(apicv.write_page(memory, 0x300, 4, low), Ok(()));
    apicv.complete_operation(memory)
}

const EXIT: Completion = Completion::Exit(ApicvExit::ApicWrite(0x300));

#[test]
fn the_forms_are_all_there() {
    let all: Vec<u32> = commands().collect();
    assert_eq!(all.len(), 512 * 7 * 5);
    // Each bit of the low half but four of the twelve reserved ones varies.
    assert_eq!(all.iter().fold(0, |seen, low| seen | low), 0x821F_FFFF);
}

#[test]
fn a_command_by_memory_is_a_self_ipi_or_an_ipi_or_exits() {
    const TARGET: u32 = 0x0500_0000;
    for controls in (0..8u8).map(|bits| ApicvControls {
        delivers_interrupts: bits & 1 != 0,
        virtualizes_ipis: bits & 2 != 0,
        virtualizes_registers: bits & 4 != 0,
        ..XAPIC
    }) {
        if !controls.delivers_interrupts
            && !controls.virtualizes_ipis
            && !controls.virtualizes_registers
        {
            continue;
        }
        for low in commands() {
            let (mut memory, mut apicv) = (Memory::default(), apicv(controls));
            set_register(&mut memory, 0x310, TARGET);
            let completion = write_by_memory(&mut apicv, &mut memory, low);
            let is_clean = !has_reserved(low) && is_plain(low, true);
            let (vector, shorthand) = (low as u8, low >> 18 & 3);
            let expected = if controls.delivers_interrupts
                && is_clean
                && shorthand == 1
                && vector >= 16
            {
                Completion::Done
            } else if controls.virtualizes_ipis && is_clean && shorthand == 0 && low >> 11 & 1 == 0
            {
                Completion::Send(IpiSend::new(Vector(vector), 5))
            } else {
                EXIT
            };
            let is_self = expected == Completion::Done;
            assert_eq!(completion, expected, "{low:#x} {controls:?}");
            assert_eq!(register(&memory, 0x300), low);
            assert_eq!(apicv.is_recognized, is_self, "{low:#x}");
            assert_eq!(contains(&memory, Bank::Request, vector), is_self, "{low:#x}");
        }
    }
}

#[test]
fn reserved_bits_of_a_command_by_memory_can_be_ignored() {
    for low in commands() {
        let (mut memory, mut apicv) = (Memory::default(), apicv(XAPIC));
        apicv.behaviour.ignores_reserved_command_bits = true;
        let completion = write_by_memory(&mut apicv, &mut memory, low);
        let is_ipi = is_plain(low, true) && low >> 18 & 3 == 0 && low >> 11 & 1 == 0;
        assert_eq!(matches!(completion, Completion::Send(_)), is_ipi, "{low:#x}");
    }
}

#[test]
fn a_command_by_msr_faults_on_reserved_bits_is_an_ipi_or_exits() {
    for low in commands() {
        let (mut memory, mut apicv) = (Memory::default(), apicv(X2APIC));
        let value = 0x0001_0203u64 << 32 | u64::from(low);
        let outcome = apicv.write_msr(&mut memory, 0x830, value);
        if has_reserved(low) {
            assert_eq!(outcome, MsrWrite::GeneralProtection, "{low:#x}");
            assert_eq!(memory, Memory::default(), "nothing is stored");
            continue;
        }
        // The old delivery status does not fault, but neither is it virtualized.
        let is_ipi = is_plain(low, true) && low >> 18 & 3 == 0 && low >> 11 & 1 == 0;
        let expected =
            if is_ipi { Completion::Send(IpiSend::new(Vector(low as u8), 0x1_0203)) } else { EXIT };
        assert_eq!(outcome, MsrWrite::Virtualized(expected), "{low:#x}");
        assert_eq!(register(&memory, 0x300), low);
        assert_eq!(register(&memory, 0x304), 0x1_0203, "one register of 64 bits");
        assert_eq!(register(&memory, 0x310), 0);
        assert!(!apicv.is_recognized, "not even to the processor itself");
    }
}

#[test]
fn a_command_by_msr_is_an_ordinary_write_without_ipi_virtualization() {
    for low in commands() {
        let controls = ApicvControls { virtualizes_ipis: false, ..X2APIC };
        let (mut memory, mut apicv) = (Memory::default(), apicv(controls));
        assert_eq!(apicv.write_msr(&mut memory, 0x830, low.into()), MsrWrite::Ordinary);
        assert_eq!(memory, Memory::default());
    }
}

#[test]
fn the_exit_for_a_command_leaves_its_status_alone_or_busy() {
    let nmi = Icr::new().with_shorthand(Scope::AllButSelf).low() | 4 << 8;
    for (is_busy, expected) in [(false, nmi), (true, nmi | 1 << 12)] {
        let (mut memory, mut by_memory) = (Memory::default(), apicv(XAPIC));
        by_memory.behaviour.leaves_busy_set = is_busy;
        assert_eq!(write_by_memory(&mut by_memory, &mut memory, nmi), EXIT);
        assert_eq!(register(&memory, 0x300), expected);
        let (mut memory, mut by_msr) = (Memory::default(), apicv(X2APIC));
        by_msr.behaviour.leaves_busy_set = is_busy;
        let outcome = by_msr.write_msr(&mut memory, 0x830, nmi.into());
        assert_eq!(outcome, MsrWrite::Virtualized(EXIT));
        assert_eq!(register(&memory, 0x300), expected);
    }
}

#[test]
fn the_apic_id_to_notify_is_read_as_the_senders_mode_has_it() {
    let control = NotificationControl::new().with_destination(0x0001_2305).with_vector(0xF2);
    assert_eq!(control.apic_id(true), 0x0001_2305);
    assert_eq!(control.apic_id(false), 0x23);
}

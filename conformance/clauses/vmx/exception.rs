//! Virtualization exceptions. [SDM3 "Virtualization Exceptions"]

use crate::lab::*;
use arch::vmx::ExitReason;
use arch::vmx::control::SecondaryControls;
use arch::vmx::field::{control, exit, guest};
use iced_x86::code_asm::*;

const AREA: u64 = 0x2_D000;
const PAGE: u64 = GUEST_DATA >> 12;
const SUPPRESSED: u64 = 1 << 63;

/// A guest that writes to a page which EPT does not map; `entry` is what it finds there.
fn lab(entry: u64) -> Lab {
    let mut lab = Lab::new(|a| {
        a.mov(dword_ptr(GUEST_DATA + 0x10), eax).unwrap();
        a.hlt().unwrap();
    });
    lab.secondary(SecondaryControls::EPT_VIOLATION_EXCEPTION);
    lab.set(control::EXCEPTION_AREA, AREA);
    lab.set(control::EPTP_INDEX, 7);
    lab.write(Lab::extended_entry(PAGE), entry);
    lab
}

#[test]
fn a_violation_becomes_an_exception_whose_cause_is_in_the_area() {
    let mut lab = lab(0);
    assert_eq!(lab.run(), ExitReason::Hlt);
    assert_eq!(lab.get(guest::RIP), GUEST_HANDLER);
    assert_eq!(lab.get(guest::RSP), GUEST_STACK - 12, "no error code");
    assert_eq!(lab.read(AREA), 0xFFFF_FFFF_0000_0030, "reason 48, and busy");
    assert_eq!(lab.read(AREA + 8), 0x782, "the qualification");
    assert_eq!(lab.read(AREA + 16), GUEST_DATA + 0x10);
    assert_eq!(lab.read(AREA + 24), GUEST_DATA + 0x10);
    assert_eq!(lab.read(AREA + 32) as u16, 7);
}

#[test]
fn the_exception_bitmap_holds_for_it() {
    let mut lab = lab(0);
    lab.set(control::EXCEPTION_BITMAP, 1 << 20);
    assert_eq!(lab.run(), ExitReason::ExceptionOrNmi);
    assert_eq!(lab.get(exit::INTERRUPTION_INFO), 1 << 31 | 3 << 8 | 20);
    assert_eq!(lab.get(guest::RIP), GUEST_CODE);
}

#[test]
fn a_violation_exits_where_it_is_suppressed_or_the_area_is_busy() {
    let mut lab = lab(SUPPRESSED);
    assert_eq!(lab.run(), ExitReason::EptViolation, "not present, suppressed");
    let readable = GUEST + GUEST_DATA | 1 | 6 << 3;
    lab.write(Lab::extended_entry(PAGE), readable | SUPPRESSED);
    assert_eq!(lab.resume(), ExitReason::EptViolation, "present, suppressed");
    lab.write(Lab::extended_entry(PAGE), 0);
    lab.write(AREA, 1 << 32);
    assert_eq!(lab.resume(), ExitReason::EptViolation, "busy");
    lab.write(AREA, 0);
    assert_eq!(lab.resume(), ExitReason::Hlt);
    assert_eq!(lab.get(guest::RIP), GUEST_HANDLER);
}

#[test]
fn a_violation_exits_where_an_event_was_being_delivered() {
    let mut lab = lab(GUEST + GUEST_DATA | 7 | 6 << 3);
    lab.write(Lab::extended_entry((GUEST_STACK - 4) >> 12), 0);
    lab.set(control::ENTRY_INTERRUPTION_INFO, 1 << 31 | 3 << 8 | 6);
    assert_eq!(lab.run(), ExitReason::EptViolation);
    assert_eq!(lab.get(exit::IDT_VECTORING_INFO), 1 << 31 | 3 << 8 | 6);
    assert_eq!(lab.read(AREA), 0);
}

#[test]
fn a_misconfiguration_always_exits() {
    let mut lab = lab(GUEST + GUEST_DATA | 2);
    assert_eq!(lab.run(), ExitReason::EptMisconfiguration);
}

//! What VMX makes of user interrupts. [SDM3 "VMX Support for User Interrupts"]
//!
//! SENDUIPI and notifications in a guest are run by `lab::senduipi`, on a hypervisor.

use crate::lab::*;
use arch::control::{Cr4, rflags};
use arch::vmx::ExitReason;
use arch::vmx::control::{EntryControls, ExitControls};
use arch::vmx::field::{control, guest};

const MODEL: &str = "sapphire-rapids";
const EXTERNAL: u64 = 1 << 31;

fn lab() -> Lab {
    let mut lab = Lab::on(MODEL);
    lab.guest_code(|a| a.hlt().unwrap());
    lab.cpu.control.uintr.set_notification_vector(0xEC);
    lab
}

#[test]
fn uinv_is_loaded_and_cleared_by_its_controls_and_saved_by_every_exit() {
    for (loads, clears) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut lab = lab();
        lab.set(guest::UINV, 0x31);
        if loads {
            lab.set_bits(control::ENTRY, EntryControls::LOAD_UINV.bits());
        }
        if clears {
            lab.set_bits(control::EXIT, ExitControls::CLEAR_UINV.bits());
        }
        assert_eq!(lab.run(), ExitReason::Hlt, "{loads} {clears}");
        let in_guest = if loads { 0x31 } else { 0xEC };
        assert_eq!(lab.get(guest::UINV), in_guest, "{loads} {clears}");
        let left = if clears { 0 } else { in_guest };
        let now = u64::from(lab.cpu.control.uintr.notification_vector());
        assert_eq!(now, left, "{loads} {clears}");
    }
}

#[test]
fn an_entry_that_loads_uinv_refuses_more_than_eight_bits() {
    for (uinv, loads, expected) in [
        (0xFF, true, ExitReason::Hlt),
        (0x100, true, ExitReason::InvalidGuestState),
        (0x100, false, ExitReason::Hlt),
    ] {
        let mut lab = lab();
        lab.set(guest::UINV, uinv);
        if loads {
            lab.set_bits(control::ENTRY, EntryControls::LOAD_UINV.bits());
        }
        assert_eq!(lab.run(), expected, "{uinv:#x} {loads}");
    }
}

#[test]
fn the_controls_are_offered_with_the_feature_alone() {
    for (model, is_offered) in [(MODEL, true), ("ice-lake-sp", false)] {
        let can = Lab::on(model).cpu.guest.vmx.capabilities.expect("VMX");
        assert_eq!(can.exit.allowed & ExitControls::CLEAR_UINV.bits() != 0, is_offered, "{model}");
        assert_eq!(can.entry.allowed & EntryControls::LOAD_UINV.bits() != 0, is_offered, "{model}");
    }
}

#[test]
fn an_injected_interrupt_is_a_notification_in_long_mode_alone() {
    let mut lab = lab();
    lab.set(guest::CR4, lab.get(guest::CR4) | Cr4::UINTR.bits());
    lab.set(guest::RFLAGS, rflags::FIXED | rflags::IF);
    lab.set(control::ENTRY_INTERRUPTION_INFO, EXTERNAL | 0xEC);
    assert_eq!(lab.run(), ExitReason::Hlt);
    assert_eq!(lab.get(guest::RIP), GUEST_HANDLER, "a guest in protected mode has a handler");
}

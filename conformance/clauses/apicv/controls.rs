//! Which bits of the VMCS turn what on. [SDM3 "VM-Execution Control Fields"]

use arch::vmx::{PinControls, PrimaryControls, SecondaryControls, TertiaryControls};
use virtual_apic::apicv::ApicvControls;

const NONE: ApicvControls = ApicvControls {
    uses_tpr_shadow: false,
    virtualizes_accesses: false,
    virtualizes_x2apic: false,
    virtualizes_registers: false,
    delivers_interrupts: false,
    processes_posted_interrupts: false,
    virtualizes_ipis: false,
    exits_at_interrupt_window: false,
};

/// The vectors' bits as numbers: pin-based, primary, secondary, tertiary.
fn controls(pin: u32, primary: u32, secondary: u32, tertiary: u64) -> ApicvControls {
    ApicvControls::of(
        PinControls::from_bits_retain(pin),
        PrimaryControls::from_bits_retain(primary),
        SecondaryControls::from_bits_retain(secondary),
        TertiaryControls::from_bits_retain(tertiary),
    )
}

#[test]
fn each_control_has_its_bit() {
    const SECONDARY: u32 = 1 << 31;
    const TERTIARY: u32 = 1 << 17;
    let rows = [
        ((1 << 7, 0, 0, 0), ApicvControls { processes_posted_interrupts: true, ..NONE }),
        ((0, 1 << 2, 0, 0), ApicvControls { exits_at_interrupt_window: true, ..NONE }),
        ((0, 1 << 21, 0, 0), ApicvControls { uses_tpr_shadow: true, ..NONE }),
        ((0, SECONDARY, 1 << 0, 0), ApicvControls { virtualizes_accesses: true, ..NONE }),
        ((0, SECONDARY, 1 << 4, 0), ApicvControls { virtualizes_x2apic: true, ..NONE }),
        ((0, SECONDARY, 1 << 8, 0), ApicvControls { virtualizes_registers: true, ..NONE }),
        ((0, SECONDARY, 1 << 9, 0), ApicvControls { delivers_interrupts: true, ..NONE }),
        ((0, TERTIARY, 0, 1 << 4), ApicvControls { virtualizes_ipis: true, ..NONE }),
    ];
    for ((pin, primary, secondary, tertiary), expected) in rows {
        assert_eq!(controls(pin, primary, secondary, tertiary), expected);
    }
}

#[test]
fn vectors_that_are_not_activated_do_not_count() {
    assert_eq!(controls(0, 0, !0, !0), NONE);
    let all_but_activation = !(1 << 31 | 1 << 17 | 1 << 2 | 1 << 21);
    assert_eq!(controls(!(1 << 7), all_but_activation, !0, !0), NONE);
}

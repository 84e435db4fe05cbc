//! The guest-state area of the current VMCS. [SDM3 "Guest-State Area"]
//!
//! DEVIATION(SDM3 "Guest-State Area"): CR0.NE, which VMX operation keeps set, reads as set from the
//! start; a guest that clears it ends the run.

use crate::vmx::vmcs;
use arch::control::{Cr0, debug, rflags};
use arch::msr;
use arch::vmx::capability::CR4_FIXED0;
use arch::vmx::field::{LDTR, SEGMENTS, TR, control, guest};

/// PAT as after reset: write-back, write-through, uncached- and uncached, twice.
const PAT_RESET: u64 = 0x0007_0406_0007_0406;
const CS: usize = 1;
const NO_LINK: u64 = u64::MAX;

/// MSRs that entries load and exits store. [SDM3 "VM-Entry Controls for MSRs"]
#[repr(C, align(16))]
pub struct MsrArea([[u64; 2]; Self::COUNT as usize]);

impl MsrArea {
    pub const COUNT: u64 = 5;
    const MSRS: [u32; Self::COUNT as usize] =
        [msr::STAR, msr::LSTAR, msr::CSTAR, msr::SFMASK, msr::KERNEL_GS_BASE];

    pub const fn new() -> Self {
        Self([[0; 2]; Self::COUNT as usize])
    }

    /// All zero, as after reset.
    pub fn reset(&mut self) {
        self.0 = Self::MSRS.map(|msr| [u64::from(msr), 0]);
    }

    pub fn address(&self) -> u64 {
        core::ptr::from_ref(self) as u64
    }
}

fn set_segment(at: usize, selector: u16, base: u64, limit: u32, access_rights: u32) {
    let fields = &SEGMENTS[at];
    vmcs::write(fields.selector, u64::from(selector));
    vmcs::write(fields.base, base);
    vmcs::write(fields.limit, u64::from(limit));
    vmcs::write(fields.access_rights, u64::from(access_rights));
}

fn set_cr0(value: Cr0) {
    let value = (value | Cr0::EXTENSION_TYPE | Cr0::NUMERIC_ERROR).bits();
    vmcs::write(guest::CR0, value);
    vmcs::write(control::CR0_SHADOW, value);
}

/// As after INIT, for a processor that starts at a startup vector.
/// [SDM3 "Processor State After Reset"]
pub fn reset(startup_vector: u8) {
    for at in 0..SEGMENTS.len() {
        set_segment(at, 0, 0, 0xFFFF, 0x93);
    }
    let base = u64::from(startup_vector) << 12;
    set_segment(CS, u16::from(startup_vector) << 8, base, 0xFFFF, 0x9B);
    set_segment(LDTR, 0, 0, 0xFFFF, 0x82);
    set_segment(TR, 0, 0, 0xFFFF, 0x8B);
    vmcs::write(control::CR0_MASK, Cr0::NUMERIC_ERROR.bits());
    vmcs::write(control::CR4_MASK, CR4_FIXED0);
    vmcs::write(control::CR4_SHADOW, 0);
    set_cr0(Cr0::empty());
    let fields = [
        (guest::CR3, 0),
        (guest::CR4, CR4_FIXED0),
        (guest::GDTR_BASE, 0),
        (guest::GDTR_LIMIT, 0xFFFF),
        (guest::IDTR_BASE, 0),
        (guest::IDTR_LIMIT, 0xFFFF),
        (guest::DR7, debug::DR7_RESET),
        (guest::RSP, 0),
        (guest::RIP, 0),
        (guest::RFLAGS, rflags::FIXED),
        (guest::PENDING_DEBUG, 0),
        (guest::INTERRUPTIBILITY, 0),
        (guest::ACTIVITY, 0),
        (guest::DEBUGCTL, 0),
        (guest::SYSENTER_CS, 0),
        (guest::SYSENTER_ESP, 0),
        (guest::SYSENTER_EIP, 0),
        (guest::PAT, PAT_RESET),
        (guest::EFER, 0),
        (guest::VMCS_LINK_POINTER, NO_LINK),
    ];
    fields.into_iter().for_each(|(field, value)| vmcs::write(field, value));
}

/// The state in which a Multiboot loader leaves a processor: flat 32-bit protected mode.
pub fn enter_protected_mode(rip: u32) {
    for at in 0..LDTR {
        set_segment(at, 0x10, 0, u32::MAX, 0xC093);
    }
    set_segment(CS, 0x08, 0, u32::MAX, 0xC09B);
    set_cr0(Cr0::PROTECTION_ENABLE);
    vmcs::write(guest::RIP, u64::from(rip));
}

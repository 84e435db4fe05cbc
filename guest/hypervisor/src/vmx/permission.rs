//! Which MSRs the guest reaches by itself. [SDM3 "MSR Bitmap"]
//!
//! With APICv in x2APIC mode, reads of every register of the APIC but the current count and the ICR
//! go to the virtual-APIC page, and writes of TPR, EOI and SELF_IPI are virtualized; so are reads
//! and writes of the ICR with IPI virtualization. Everything else exits, which the bitmaps decide
//! first.

use crate::vendor::ApicMsr;
use arch::apic::{Icr, MSR_FIRST};
use arch::msr;
use arch::vmx::apicv::{MsrWriteRule, msr_write_rule};
use arch::vmx::msr::{BITMAP_SIZE, bitmap_bit};
use core::sync::atomic::{AtomicU8, Ordering};

const SIZE: usize = BITMAP_SIZE as usize;
const LAST: u32 = MSR_FIRST + 0x3F;
const COMMAND: u32 = MSR_FIRST + 0x30;
const CURRENT_COUNT: u32 = MSR_FIRST + 0x39;

#[repr(C, align(4096))]
struct Map([AtomicU8; SIZE]);

/// Exchanged at entries and exits, by the VMCS or by MSR areas, so that the guest may write them.
const EXCHANGED: [u32; 11] = [
    msr::FS_BASE,
    msr::GS_BASE,
    msr::KERNEL_GS_BASE,
    msr::STAR,
    msr::LSTAR,
    msr::CSTAR,
    msr::SFMASK,
    msr::SYSENTER_CS,
    msr::SYSENTER_ESP,
    msr::SYSENTER_EIP,
    msr::PAT,
];

impl Map {
    const fn new() -> Self {
        Self([const { AtomicU8::new(0) }; SIZE])
    }

    /// Set bits exit.
    fn close_all(&self) {
        self.0.iter().for_each(|byte| byte.store(0xFF, Ordering::Relaxed));
    }

    fn open(&self, msr: u32, is_write: bool) {
        let Some(bit) = bitmap_bit(msr, is_write) else { return };
        self.0[bit as usize / 8].fetch_and(!(1 << (bit % 8)), Ordering::Relaxed);
    }
}

pub struct PermissionMaps {
    /// For a guest whose APIC is software's, or in xAPIC mode.
    software: Map,
    x2apic: Map,
}

impl PermissionMaps {
    pub const fn new() -> Self {
        Self { software: Map::new(), x2apic: Map::new() }
    }

    pub fn build(&self, has_ipi_virtualization: bool, has_user_interrupts: bool) {
        for map in [&self.software, &self.x2apic] {
            map.close_all();
            let own = msr::UINTR_REQUESTS..=msr::UINTR_TARGETS;
            for msr in EXCHANGED.into_iter().chain(own.filter(|_| has_user_interrupts)) {
                map.open(msr, false);
                map.open(msr, true);
            }
        }
        for msr in MSR_FIRST..=LAST {
            let is_virtual_command = msr == COMMAND && has_ipi_virtualization;
            let is_left_to_us = msr == CURRENT_COUNT || msr == COMMAND && !is_virtual_command;
            if !is_left_to_us && apic_msr(msr).is_some_and(|access| access.is_readable) {
                self.x2apic.open(msr, false);
            }
            let is_virtual = match msr_write_rule(msr) {
                MsrWriteRule::TaskPriority
                | MsrWriteRule::EndOfInterrupt
                | MsrWriteRule::SelfIpi => true,
                MsrWriteRule::Command => is_virtual_command,
                MsrWriteRule::Never => false,
            };
            if is_virtual {
                self.x2apic.open(msr, true);
            }
        }
    }

    pub fn msrs(&self, is_x2apic: bool) -> u64 {
        core::ptr::from_ref(if is_x2apic { &self.x2apic } else { &self.software }) as u64
    }
}

/// The registers of x2APIC mode, with six local vectors. [SDM3 "x2APIC Register Address Space"]
pub fn apic_msr(msr: u32) -> Option<ApicMsr> {
    let (is_readable, writable) = match msr {
        0x802 | 0x803 | 0x80A | 0x80D | 0x810..=0x827 | 0x839 => (true, None),
        0x808 => (true, Some(0xFF)),
        0x80B => (false, Some(0)),
        0x80F => (true, Some(0x1FF)),
        0x828 => (true, Some(0)),
        0x830 => (true, Some(!Icr::X2_RESERVED)),
        0x832 => (true, Some(0x3_10FF)),
        0x833 | 0x834 => (true, Some(0x1_17FF)),
        0x835 | 0x836 => (true, Some(0x1_F7FF)),
        0x837 => (true, Some(0x1_10FF)),
        0x838 => (true, Some(0xFFFF_FFFF)),
        0x83E => (true, Some(0xB)),
        0x83F => (false, Some(0xFF)),
        _ => return None,
    };
    Some(ApicMsr { is_readable, writable })
}

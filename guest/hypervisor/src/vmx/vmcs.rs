//! The instructions that reach a VMCS. [SDM3 "VMX Instruction Reference"]

#![expect(unsafe_code, reason = "VMX's instructions")]

use arch::vmx::Field;
use core::arch::asm;

/// A VMXON or VMCS region: its revision, the abort code, and what is the processor's own.
#[repr(C, align(4096))]
pub struct Region(pub [u8; 4096]);

impl Region {
    pub const fn new() -> Self {
        Self([0; 4096])
    }

    pub fn set_revision(&mut self, revision: u32) {
        self.0.fill(0);
        self.0[..4].copy_from_slice(&revision.to_le_bytes());
    }

    fn address(&self) -> u64 {
        core::ptr::from_ref(self) as u64
    }

    /// Writes back what the processor keeps of this VMCS; it is neither current nor launched then.
    pub fn clear(&mut self) {
        let address = self.address();
        // SAFETY: the region is ours, and the processor in VMX operation.
        unsafe { asm!("vmclear [{}]", in(reg) &raw const address, options(nostack)) }
    }

    /// Makes this VMCS the one that the functions below and VM entries mean.
    pub fn load(&mut self) {
        let address = self.address();
        // SAFETY: as above; the region has its revision.
        unsafe { asm!("vmptrld [{}]", in(reg) &raw const address, options(nostack)) }
    }
}

/// A field of the current VMCS; zero where the processor has no such field.
pub fn read(field: Field) -> u64 {
    let mut value = 0;
    // SAFETY: only a register is written.
    unsafe {
        asm!("vmread {}, {}", inout(reg) value, in(reg) u64::from(field.encoding()),
             options(nostack));
    }
    value
}

/// Writes a field of the current VMCS. One that the processor does not have stays out of it.
pub fn write(field: Field, value: u64) {
    // SAFETY: takes effect at a VM entry; what is entered is `entry`'s affair.
    unsafe {
        asm!("vmwrite {}, {}", in(reg) u64::from(field.encoding()), in(reg) value,
             options(nostack));
    }
}

/// Forgets every translation that came from EPT. [SDM3 "INVEPT"]
pub fn invalidate_ept() {
    const ALL_CONTEXTS: u64 = 2;
    let descriptor = [0u64; 2];
    // SAFETY: only translations are dropped.
    unsafe {
        asm!("invept {}, [{}]", in(reg) ALL_CONTEXTS, in(reg) &raw const descriptor,
             options(nostack));
    }
}

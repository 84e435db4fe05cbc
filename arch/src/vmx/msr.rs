//! MSRs of VMX, MSR bitmaps and MSR areas. [SDM3 "MSR Bitmap"] [SDM4 "Architectural MSRs"]

use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// See [`super::capability::Basic`].
pub const BASIC: u32 = 0x480;
/// [`super::capability::Allowed`] of the pin-based controls, with the default-1 class required.
pub const PIN_CONTROLS: u32 = 0x481;
/// Of the primary processor-based controls, with the default-1 class required.
pub const PRIMARY_CONTROLS: u32 = 0x482;
/// Of the primary VM-exit controls, with the default-1 class required.
pub const EXIT_CONTROLS: u32 = 0x483;
/// Of the VM-entry controls, with the default-1 class required.
pub const ENTRY_CONTROLS: u32 = 0x484;
/// See [`super::capability::Misc`].
pub const MISC: u32 = 0x485;
/// Bits of CR0 that are 1 in VMX operation.
pub const CR0_FIXED0: u32 = 0x486;
/// Bits of CR0 that may be 1 in VMX operation.
pub const CR0_FIXED1: u32 = 0x487;
/// Bits of CR4 that are 1 in VMX operation.
pub const CR4_FIXED0: u32 = 0x488;
/// Bits of CR4 that may be 1 in VMX operation.
pub const CR4_FIXED1: u32 = 0x489;
/// The highest index of a VMCS field, in bits 9:1.
pub const VMCS_ENUM: u32 = 0x48A;
/// Of the secondary processor-based controls; none is required.
pub const SECONDARY_CONTROLS: u32 = 0x48B;
/// See [`super::capability::EptVpid`].
pub const EPT_VPID: u32 = 0x48C;
/// Of the pin-based controls, as they are.
pub const TRUE_PIN_CONTROLS: u32 = 0x48D;
/// Of the primary processor-based controls, as they are.
pub const TRUE_PRIMARY_CONTROLS: u32 = 0x48E;
/// Of the primary VM-exit controls, as they are.
pub const TRUE_EXIT_CONTROLS: u32 = 0x48F;
/// Of the VM-entry controls, as they are.
pub const TRUE_ENTRY_CONTROLS: u32 = 0x490;
/// The VM functions that may be enabled.
pub const VM_FUNCTIONS: u32 = 0x491;
/// The tertiary controls that may be 1: a bit each.
pub const TERTIARY_CONTROLS: u32 = 0x492;
/// The secondary VM-exit controls that may be 1: a bit each.
pub const SECONDARY_EXIT_CONTROLS: u32 = 0x493;

/// IA32_FEATURE_CONTROL (3Ah): VMXON needs the lock bit and the one for its mode.
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureControl {
    /// \[0\] writes raise #GP until reset.
    pub is_locked: bool,
    /// \[1\]
    pub vmx_in_smx: bool,
    /// \[2\]
    pub vmx_outside_smx: bool,
    #[bits(61)]
    __: u64,
}

/// An entry of a VM-exit MSR-store, VM-exit MSR-load or VM-entry MSR-load area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AreaEntry {
    /// The MSR's number, as ECX would hold it.
    pub index: u32,
    /// Must be zero.
    pub reserved: u32,
    /// What is loaded, or was stored.
    pub value: u64,
}

impl AreaEntry {
    /// Bytes in memory.
    pub const SIZE: u64 = 16;

    /// From the two halves in memory.
    pub const fn from_qwords(low: u64, value: u64) -> Self {
        Self { index: low as u32, reserved: (low >> 32) as u32, value }
    }
}

/// Bytes of the MSR bitmaps.
pub const BITMAP_SIZE: u64 = 0x1000;

/// The bit of the MSR bitmaps for a read or a write of `msr`; `None` for those that always exit.
pub const fn bitmap_bit(msr: u32, is_write: bool) -> Option<u32> {
    let (bytes, index) = match msr {
        0x0000_0000..=0x0000_1FFF => (0x000, msr),
        0xC000_0000..=0xC000_1FFF => (0x400, msr - 0xC000_0000),
        _ => return None,
    };
    let bytes = if is_write { bytes + 0x800 } else { bytes };
    Some(bytes * 8 + index)
}

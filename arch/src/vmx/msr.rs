//! MSRs of VMX, MSR bitmaps and MSR areas. [SDM3 "MSR Bitmap"] [SDM4 "Architectural MSRs"]

use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

pub const BASIC: u32 = 0x480;
pub const PIN_CONTROLS: u32 = 0x481;
pub const PRIMARY_CONTROLS: u32 = 0x482;
pub const EXIT_CONTROLS: u32 = 0x483;
pub const ENTRY_CONTROLS: u32 = 0x484;
pub const MISC: u32 = 0x485;
pub const CR0_FIXED0: u32 = 0x486;
pub const CR0_FIXED1: u32 = 0x487;
pub const CR4_FIXED0: u32 = 0x488;
pub const CR4_FIXED1: u32 = 0x489;
pub const VMCS_ENUM: u32 = 0x48A;
pub const SECONDARY_CONTROLS: u32 = 0x48B;
pub const EPT_VPID: u32 = 0x48C;
pub const TRUE_PIN_CONTROLS: u32 = 0x48D;
pub const TRUE_PRIMARY_CONTROLS: u32 = 0x48E;
pub const TRUE_EXIT_CONTROLS: u32 = 0x48F;
pub const TRUE_ENTRY_CONTROLS: u32 = 0x490;
pub const VM_FUNCTIONS: u32 = 0x491;
pub const TERTIARY_CONTROLS: u32 = 0x492;
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
    pub index: u32,
    /// Must be zero.
    pub reserved: u32,
    pub value: u64,
}

impl AreaEntry {
    pub const SIZE: u64 = 16;

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

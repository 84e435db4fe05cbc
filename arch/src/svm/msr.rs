//! MSRs of SVM, and which bit of the MSR permission map governs an MSR. [APM2 "SVM Related MSRs"]

use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// TSC_RATIO: 8.32 fixed point; bits 63:40 must be zero.
pub const TSC_RATIO: u32 = 0xC000_0104;
/// TSC_RATIO at reset: 1.0.
pub const TSC_RATIO_ONE: u64 = 1 << 32;
/// Bits of TSC_RATIO that must be zero.
pub const TSC_RATIO_RESERVED: u64 = !((1 << 40) - 1);
/// See [`VmCr`].
pub const VM_CR: u32 = 0xC001_0114;
/// Bit 0: x87 errors are ignored as the pin IGNNE# has it.
pub const IGNNE: u32 = 0xC001_0115;
/// Write-only: with it software enters, leaves and dismisses SMM.
pub const SMM_CTL: u32 = 0xC001_0116;
/// The page into which VMRUN saves the host.
pub const VM_HSAVE_PA: u32 = 0xC001_0117;
/// Reads as zero.
pub const SVM_KEY: u32 = 0xC001_0118;
/// Write-only: the password that unlocks SMM's configuration.
pub const SMM_KEY: u32 = 0xC001_0119;
/// The AVIC doorbell: write-only, the value is a host physical APIC ID. [APM2 "AVIC Doorbell"]
pub const AVIC_DOORBELL: u32 = 0xC001_011B;

/// The first and the last MSR that x2AVIC virtualizes.
pub const X2APIC_FIRST: u32 = 0x800;
/// The last of them.
pub const X2APIC_LAST: u32 = 0x8FF;

/// VM_CR (C001_0114h).
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct VmCr {
    /// \[0\] DPD: disables the external debug port.
    pub debug_port_disabled: bool,
    /// \[1\] R_INIT: INIT becomes #SX.
    pub redirects_init: bool,
    /// \[2\] DIS_A20M
    pub a20_masking_disabled: bool,
    /// \[3\] LOCK: bits 3 and 4 are read-only.
    pub locked: bool,
    /// \[4\] SVMDIS: EFER.SVME cannot be set.
    pub svm_disabled: bool,
    #[bits(59)]
    __: u64,
}

impl VmCr {
    /// Bits that must be written as zero.
    pub const RESERVED: u64 = !0x1F;
}

/// Bytes in the MSR permission map.
pub const PERMISSION_MAP_SIZE: u64 = 0x2000;

/// The bit of the permission map that intercepts a read of `msr`; the next one intercepts a write.
/// MSRs outside of the three ranges have none and always exit. [APM2 "MSR Intercepts"]
pub const fn permission_bit(msr: u32) -> Option<u32> {
    let (first, byte) = match msr {
        0x0000_0000..=0x0000_1FFF => (0x0000_0000, 0x0000),
        0xC000_0000..=0xC000_1FFF => (0xC000_0000, 0x0800),
        0xC001_0000..=0xC001_1FFF => (0xC001_0000, 0x1000),
        _ => return None,
    };
    Some(byte * 8 + (msr - first) * 2)
}

/// Bytes in the I/O permission map: three pages, of which the third is reached by accesses that
/// wrap past port FFFFh. [APM2 "IOIO Intercepts"]
pub const IO_PERMISSION_MAP_SIZE: u64 = 0x3000;

//! Model-specific register numbers. [APM2 "Model-Specific Registers"] [SDM4]

use bitflags::bitflags;
use serde::{Deserialize, Serialize};

pub const TSC: u32 = 0x10;
pub const PLATFORM_ID: u32 = 0x17;
pub const APIC_BASE: u32 = 0x1B;
pub const FEATURE_CONTROL: u32 = 0x3A;
pub const TSC_ADJUST: u32 = 0x3B;
pub const SPEC_CTRL: u32 = 0x48;
pub const PRED_CMD: u32 = 0x49;
pub const BIOS_SIGN_ID: u32 = 0x8B;
pub const MTRR_CAP: u32 = 0xFE;
pub const ARCH_CAPABILITIES: u32 = 0x10A;
pub const SYSENTER_CS: u32 = 0x174;
pub const SYSENTER_ESP: u32 = 0x175;
pub const SYSENTER_EIP: u32 = 0x176;
pub const MCG_CAP: u32 = 0x179;
pub const MCG_STATUS: u32 = 0x17A;
pub const MCG_CTL: u32 = 0x17B;
/// [SDM4 "IA32_MISC_ENABLE"]
pub const MISC_ENABLE: u32 = 0x1A0;
pub const DEBUG_CTL: u32 = 0x1D9;
pub const LAST_BRANCH_FROM: u32 = 0x1DB;
pub const LAST_BRANCH_TO: u32 = 0x1DC;
pub const LAST_INT_FROM: u32 = 0x1DD;
pub const LAST_INT_TO: u32 = 0x1DE;
pub const MTRR_PHYS_BASE0: u32 = 0x200;
pub const MTRR_FIX_64K: u32 = 0x250;
pub const PAT: u32 = 0x277;
pub const MTRR_DEF_TYPE: u32 = 0x2FF;
pub const MC0_CTL: u32 = 0x400;
pub const TSC_DEADLINE: u32 = 0x6E0;
pub const X2APIC_FIRST: u32 = 0x800;
pub const X2APIC_LAST: u32 = 0x8FF;
pub const XSS: u32 = 0xDA0;
pub const EFER: u32 = 0xC000_0080;
pub const STAR: u32 = 0xC000_0081;
pub const LSTAR: u32 = 0xC000_0082;
pub const CSTAR: u32 = 0xC000_0083;
pub const SFMASK: u32 = 0xC000_0084;
pub const FS_BASE: u32 = 0xC000_0100;
pub const GS_BASE: u32 = 0xC000_0101;
pub const KERNEL_GS_BASE: u32 = 0xC000_0102;
pub const TSC_AUX: u32 = 0xC000_0103;
pub const TSC_RATIO: u32 = 0xC000_0104;
pub const SYSCFG: u32 = 0xC001_0010;
pub const HWCR: u32 = 0xC001_0015;
pub const TOP_MEM: u32 = 0xC001_001A;
pub const TOP_MEM2: u32 = 0xC001_001D;

bitflags! {
    /// IA32_ARCH_CAPABILITIES (10Ah): which weaknesses of speculative execution a part does not
    /// have. [SDM4 "IA32_ARCH_CAPABILITIES"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct ArchCapabilities: u64 {
        const RDCL_NO = 1 << 0;
        /// Enhanced IBRS.
        const IBRS_ALL = 1 << 1;
        const RSBA = 1 << 2;
        /// The L1 data cache need not be flushed before a VM entry.
        const SKIP_L1DFL_VMENTRY = 1 << 3;
        const SSB_NO = 1 << 4;
        const MDS_NO = 1 << 5;
        /// No machine check when a page's size changes while its translation is cached.
        const IF_PSCHANGE_MC_NO = 1 << 6;
        const TSX_CTRL = 1 << 7;
        const TAA_NO = 1 << 8;
        const SBDR_SSDP_NO = 1 << 13;
        const FBSDP_NO = 1 << 14;
        const PSDP_NO = 1 << 15;
        const BHI_NO = 1 << 20;
        const PBRSB_NO = 1 << 24;
        const GDS_NO = 1 << 26;
        const RFDS_NO = 1 << 27;
        const ITS_NO = 1 << 62;

        const _ = !0;
    }
}

impl ArchCapabilities {
    /// What holds of a processor that executes nothing speculatively.
    pub const NOT_SPECULATING: Self = Self::RDCL_NO
        .union(Self::SKIP_L1DFL_VMENTRY)
        .union(Self::SSB_NO)
        .union(Self::MDS_NO)
        .union(Self::IF_PSCHANGE_MC_NO)
        .union(Self::TAA_NO)
        .union(Self::SBDR_SSDP_NO)
        .union(Self::FBSDP_NO)
        .union(Self::PSDP_NO)
        .union(Self::BHI_NO)
        .union(Self::PBRSB_NO)
        .union(Self::GDS_NO)
        .union(Self::RFDS_NO)
        .union(Self::ITS_NO);
}

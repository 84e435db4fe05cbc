//! Model-specific register numbers. [APM2 "Model-Specific Registers"]
//! [SDM4 "Architectural MSRs"]

use bitfield_struct::bitfield;
use bitflags::bitflags;
use serde::{Deserialize, Serialize};

/// The time-stamp counter.
pub const TSC: u32 = 0x10;
/// IA32_PLATFORM_ID, Intel: which microcode updates fit, in bits 52:50.
pub const PLATFORM_ID: u32 = 0x17;
/// IA32_APIC_BASE: see [`crate::apic::ApicBase`].
pub const APIC_BASE: u32 = 0x1B;
/// MSR_SMI_COUNT, Intel since Nehalem, read-only: how many SMIs there were since reset.
pub const SMI_COUNT: u32 = 0x34;
/// MSR_CORE_THREAD_COUNT, Intel's servers: see [`CoreThreadCount`].
pub const CORE_THREAD_COUNT: u32 = 0x35;
/// IA32_FEATURE_CONTROL, Intel: see [`crate::vmx::msr::FeatureControl`].
pub const FEATURE_CONTROL: u32 = 0x3A;
/// IA32_TSC_ADJUST: what software has added to the counter.
pub const TSC_ADJUST: u32 = 0x3B;
/// SPEC_CTRL: IBRS, STIBP and SSBD.
pub const SPEC_CTRL: u32 = 0x48;
/// PRED_CMD: write-only; bit 0 is the indirect-branch prediction barrier.
pub const PRED_CMD: u32 = 0x49;
/// The loaded microcode's revision: in bits 63:32 on Intel, 31:0 on AMD (PATCH_LEVEL).
pub const BIOS_SIGN_ID: u32 = 0x8B;
/// MSR_PLATFORM_INFO, Intel since Nehalem: see [`PlatformInfo`].
pub const PLATFORM_INFO: u32 = 0xCE;
/// MSR_PKG_CST_CONFIG_CONTROL, Intel: how deep packages sleep.
pub const PACKAGE_C_STATES: u32 = 0xE2;
/// IA32_MPERF: counts at the time-stamp counter's rate while the processor runs.
pub const MPERF: u32 = 0xE7;
/// IA32_APERF: counts at the core's clock while the processor runs.
pub const APERF: u32 = 0xE8;
/// How many variable ranges there are, and whether fixed ones and write-combining exist.
pub const MTRR_CAP: u32 = 0xFE;
/// IA32_ARCH_CAPABILITIES: see [`ArchCapabilities`].
pub const ARCH_CAPABILITIES: u32 = 0x10A;
/// IA32_FLUSH_CMD: write-only; bit 0 writes the first-level data cache back and empties it.
pub const FLUSH_CMD: u32 = 0x10B;
/// Code selector of SYSENTER; the other three follow from it.
pub const SYSENTER_CS: u32 = 0x174;
/// Stack pointer of SYSENTER.
pub const SYSENTER_ESP: u32 = 0x175;
/// Target of SYSENTER.
pub const SYSENTER_EIP: u32 = 0x176;
/// AMD: what SYSENTER_ESP and SYSENTER_EIP keep of an address. SYSENTER is of legacy mode alone,
/// and Linux's selftests of KVM (`msrs_test`) expect that WRMSR drops bits 63:32. That VMLOAD
/// does, too, follows from that there is no place for them. [APM2 "Fast System Call and Return"]
pub const AMD_SYSENTER_BITS: u64 = 0xFFFF_FFFF;
/// Machine checks: the number of banks in bits 7:0, and what they can report.
pub const MCG_CAP: u32 = 0x179;
/// Machine checks: bit 2 while one is handled, which makes another a shutdown.
pub const MCG_STATUS: u32 = 0x17A;
/// Machine checks: a bit per bank that may report.
pub const MCG_CTL: u32 = 0x17B;
/// IA32_PERF_STATUS, Intel: the ratio that the core runs at, in bits 15:8.
pub const PERF_STATUS: u32 = 0x198;
/// IA32_PERF_CTL, Intel: the ratio that is wanted, in bits 15:8; bit 32 forbids turbo.
pub const PERF_CTL: u32 = 0x199;
/// [SDM4 "IA32_MISC_ENABLE"]
pub const MISC_ENABLE: u32 = 0x1A0;
/// MSR_MISC_PWR_MGMT, Intel: whether other hardware chooses ratios.
pub const MISC_POWER_MANAGEMENT: u32 = 0x1AA;
/// MSR_TURBO_RATIO_LIMIT, Intel: eight ratios, for growing numbers of busy cores.
pub const TURBO_RATIO_LIMIT: u32 = 0x1AD;
/// DebugCtl: bit 0 records branches, bit 1 makes RFLAGS.TF trap on branches.
pub const DEBUG_CTL: u32 = 0x1D9;
/// Source of the last branch taken, while DebugCtl records.
pub const LAST_BRANCH_FROM: u32 = 0x1DB;
/// Target of the last branch taken.
pub const LAST_BRANCH_TO: u32 = 0x1DC;
/// Source of the last branch before an exception or interrupt.
pub const LAST_INT_FROM: u32 = 0x1DD;
/// Target of the last branch before an exception or interrupt.
pub const LAST_INT_TO: u32 = 0x1DE;
/// MSR_POWER_CTL, Intel's servers.
pub const POWER_CONTROL: u32 = 0x1FC;
/// The first of the pairs of base and mask of variable ranges.
pub const MTRR_PHYS_BASE0: u32 = 0x200;
/// Eight ranges of 64 KiB, from address 0; a byte of type each.
pub const MTRR_FIX_64K: u32 = 0x250;
/// The first of two fixed ranges of 16 KiB each.
pub const MTRR_FIX_16K: u32 = 0x258;
/// The first of eight fixed ranges of 4 KiB each.
pub const MTRR_FIX_4K: u32 = 0x268;
/// Eight memory types, of which PAT, PCD and PWT of an entry select one.
pub const PAT: u32 = 0x277;
/// The type where no range matches, and the enables in bits 11:10.
pub const MTRR_DEF_TYPE: u32 = 0x2FF;
/// The first machine-check bank's control; four MSRs per bank.
pub const MC0_CTL: u32 = 0x400;
/// IA32_TSC_DEADLINE: at which count the APIC timer fires; 0 disarms it.
pub const TSC_DEADLINE: u32 = 0x6E0;
/// IA32_PM_ENABLE, Intel: bit 0 turns HWP on, for good.
pub const PM_ENABLE: u32 = 0x770;
/// IA32_HWP_CAPABILITIES, Intel: see [`HwpCapabilities`].
pub const HWP_CAPABILITIES: u32 = 0x771;
/// IA32_HWP_REQUEST, Intel: see [`HwpRequest`].
pub const HWP_REQUEST: u32 = 0x774;
/// IA32_HWP_STATUS, Intel: what has changed.
pub const HWP_STATUS: u32 = 0x777;
/// The first MSR of x2APIC mode's register space.
pub const X2APIC_FIRST: u32 = 0x800;
/// The last MSR of x2APIC mode's register space.
pub const X2APIC_LAST: u32 = 0x8FF;
/// IA32_UINTR_RR, Intel: a request for each user-interrupt vector (UIRR).
pub const UINTR_REQUESTS: u32 = 0x985;
/// IA32_UINTR_HANDLER, Intel: where user interrupts are delivered.
pub const UINTR_HANDLER: u32 = 0x986;
/// IA32_UINTR_STACKADJUST, Intel: what is subtracted from RSP first; with bit 0 set, the new RSP.
pub const UINTR_STACK_ADJUSTMENT: u32 = 0x987;
/// IA32_UINTR_MISC, Intel: see [`crate::uintr::UintrMisc`].
pub const UINTR_MISC: u32 = 0x988;
/// IA32_UINTR_PD, Intel: the linear address of the receiver's own descriptor (UPIDADDR).
pub const UINTR_DESCRIPTOR: u32 = 0x989;
/// IA32_UINTR_TT, Intel: see [`crate::uintr::UintrTargets`].
pub const UINTR_TARGETS: u32 = 0x98A;
/// Supervisor state components of XSAVES.
pub const XSS: u32 = 0xDA0;
/// See [`crate::control::Efer`].
pub const EFER: u32 = 0xC000_0080;
/// Selectors of SYSCALL and SYSRET, and the target of SYSCALL in 32-bit legacy mode.
pub const STAR: u32 = 0xC000_0081;
/// Target of SYSCALL in 64-bit mode.
pub const LSTAR: u32 = 0xC000_0082;
/// Target of SYSCALL in compatibility mode, on AMD.
pub const CSTAR: u32 = 0xC000_0083;
/// Flags that SYSCALL clears.
pub const SFMASK: u32 = 0xC000_0084;
/// The base of FS, in all 64 bits.
pub const FS_BASE: u32 = 0xC000_0100;
/// The base of GS, in all 64 bits.
pub const GS_BASE: u32 = 0xC000_0101;
/// What SWAPGS exchanges with the base of GS.
pub const KERNEL_GS_BASE: u32 = 0xC000_0102;
/// What RDTSCP and RDPID return beside, or as, their result.
pub const TSC_AUX: u32 = 0xC000_0103;
/// SVM's TSC_RATIO: 8.32 fixed point.
pub const TSC_RATIO: u32 = 0xC000_0104;
/// Prefetch control, AMD.
pub const PREFETCH_CONTROL: u32 = 0xC000_0108;
/// The first register of AMD's scalable machine-check banks.
pub const SCALABLE_MACHINE_CHECK: u32 = 0xC000_2000;
/// PERF_CTL0, AMD: the first of four, which are also every other one from [`PERFORMANCE_PAIRS`] on.
pub const PERFORMANCE_CONTROL: u32 = 0xC001_0000;
/// PERF_CTR0, AMD: the first of four, which are also every other one behind [`PERFORMANCE_PAIRS`].
pub const PERFORMANCE_COUNTER: u32 = 0xC001_0004;
/// AMD: what the memory map's MSRs may do, and the enable of memory encryption.
pub const SYSCFG: u32 = 0xC001_0010;
/// AMD's hardware configuration register.
pub const HWCR: u32 = 0xC001_0015;
/// IORR_BASE0, AMD: the first of two pairs.
pub const IO_RANGES: u32 = 0xC001_0016;
/// AMD: where memory ends below 4 GiB.
pub const TOP_MEM: u32 = 0xC001_001A;
/// AMD: where memory ends above 4 GiB.
pub const TOP_MEM2: u32 = 0xC001_001D;
/// NB_CFG, AMD.
pub const NORTHBRIDGE: u32 = 0xC001_001F;
/// Interrupt pending and C1E, AMD.
pub const INTERRUPT_PENDING: u32 = 0xC001_0055;
/// The current limit of P-states, AMD.
pub const P_STATE_LIMIT: u32 = 0xC001_0061;
/// The P-state that is wanted, AMD, in bits 2:0.
pub const P_STATE_CONTROL: u32 = 0xC001_0062;
/// The P-state that the core is in, AMD, in bits 2:0.
pub const P_STATE_STATUS: u32 = 0xC001_0063;
/// What the first of eight P-states is, AMD: see [`PStateDefinition`].
pub const P_STATE_DEFINITIONS: u32 = 0xC001_0064;
/// SMM_BASE, AMD: where the state of system management mode is kept.
pub const SMM_BASE: u32 = 0xC001_0111;
/// SMM_ADDR, AMD: the first of two that say which memory system management mode has for itself.
pub const SMM_ADDRESS: u32 = 0xC001_0112;
/// SMM_MASK, AMD; nothing is protected while its bits 1:0 are clear.
pub const SMM_MASK: u32 = 0xC001_0113;
/// SEV_STATUS.
pub const SEV_STATUS: u32 = 0xC001_0131;
/// PERF_CTL0 and PERF_CTR0, AMD: the first of six pairs.
pub const PERFORMANCE_PAIRS: u32 = 0xC001_0200;
/// CPPC_CAPABILITY_1, AMD: the first of five.
pub const CPPC: u32 = 0xC001_02B0;
/// The first register of AMD's processors for work-arounds of errata.
pub const ERRATA: u32 = 0xC001_1000;
/// LS_CFG, AMD: load and store.
pub const LS_CFG: u32 = 0xC001_1020;
/// DE_CFG, AMD: decode; bit 1 has LFENCE serialize dispatch.
pub const DE_CFG: u32 = 0xC001_1029;

/// A P-state of AMD's families 17h and 19h: the core runs at `multiplier` times 200 MHz, divided by
/// `divisor`. [APM2 "P-State Control"]
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct PStateDefinition {
    /// \[7:0\]
    pub multiplier: u8,
    /// \[13:8\]
    #[bits(6)]
    pub divisor: u8,
    #[bits(49)]
    __: u64,
    /// \[63\]
    pub is_enabled: bool,
}

/// What HWP may choose between, in ratios of the bus clock. [SDM3 "IA32_HWP_CAPABILITIES"]
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct HwpCapabilities {
    /// \[7:0\]
    pub highest: u8,
    /// \[15:8\] without turbo.
    pub guaranteed: u8,
    /// \[23:16\]
    pub most_efficient: u8,
    /// \[31:24\]
    pub lowest: u8,
    __: u32,
}

/// What HWP is asked for, in ratios of the bus clock. [SDM3 "IA32_HWP_REQUEST"]
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct HwpRequest {
    /// \[7:0\]
    pub minimum: u8,
    /// \[15:8\]
    pub maximum: u8,
    /// \[23:16\] zero leaves it to the hardware.
    pub desired: u8,
    /// \[31:24\]
    pub energy_preference: u8,
    /// \[41:32\]
    #[bits(10)]
    pub window: u16,
    /// \[42\]
    pub is_of_package: bool,
    #[bits(21)]
    __: u32,
}

/// MSR_CORE_THREAD_COUNT (35h), read-only: what of the package is enabled.
/// [SDM4 "MSR_CORE_THREAD_COUNT"]
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct CoreThreadCount {
    /// \[15:0\] logical processors.
    pub threads: u16,
    /// \[31:16\]
    pub cores: u16,
    __: u32,
}

/// MSR_PLATFORM_INFO (CEh), read-only: what ratios of the 100 MHz bus clock a part runs at.
/// [SDM4 "MSR_PLATFORM_INFO"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct PlatformInfo {
    #[bits(8)]
    __: u8,
    /// \[15:8\] at which ratio the time-stamp counter runs: the highest without turbo.
    pub base_ratio: u8,
    #[bits(12)]
    __: u16,
    /// \[28\] the limits of turbo ratios can be set.
    pub turbo_ratios_are_programmable: bool,
    /// \[29\] the limits of power can be set.
    pub power_limits_are_programmable: bool,
    /// \[30\] the offset of the thermal limit can be set.
    pub thermal_limit_is_programmable: bool,
    /// \[31\] CPUID can be made to raise #GP outside privilege level 0.
    pub cpuid_can_fault: bool,
    #[bits(8)]
    __: u8,
    /// \[47:40\] the lowest ratio, at which a part is most efficient.
    pub efficient_ratio: u8,
    #[bits(16)]
    __: u16,
}

bitflags! {
    /// SPEC_CTRL (48h): what speculation does not do. [SDM4 "IA32_SPEC_CTRL"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct SpecCtrl: u64 {
        /// Indirect branches are not steered by less privileged code.
        const IBRS = 1 << 0;
        /// Nor by the core's other thread.
        const STIBP = 1 << 1;
        /// Loads wait for older stores whose addresses are not known.
        const SSBD = 1 << 2;
        /// No predictions of indirect branches at CPL 3.
        const IPRED_DIS_U = 1 << 3;
        /// The same at CPL 0 to 2.
        const IPRED_DIS_S = 1 << 4;
        /// RET takes no predictions from elsewhere at CPL 3.
        const RRSBA_DIS_U = 1 << 5;
        /// The same at CPL 0 to 2.
        const RRSBA_DIS_S = 1 << 6;
        /// No fast forwarding of stores.
        const PSFD = 1 << 7;
        /// Branch history from CPL 3 steers nothing at CPL 0 to 2.
        const BHI_DIS_S = 1 << 10;
    }
}

bitflags! {
    /// IA32_ARCH_CAPABILITIES (10Ah): which weaknesses of speculative execution a part does not
    /// have. [SDM4 "IA32_ARCH_CAPABILITIES"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct ArchCapabilities: u64 {
        /// Not open to rogue data-cache loads (Meltdown).
        const RDCL_NO = 1 << 0;
        /// Enhanced IBRS.
        const IBRS_ALL = 1 << 1;
        /// RET may take a prediction from elsewhere when the return-stack buffer is empty.
        const RSBA = 1 << 2;
        /// The L1 data cache need not be flushed before a VM entry.
        const SKIP_L1DFL_VMENTRY = 1 << 3;
        /// Loads do not pass older stores to unknown addresses.
        const SSB_NO = 1 << 4;
        /// Not open to sampling of microarchitectural buffers.
        const MDS_NO = 1 << 5;
        /// No machine check when a page's size changes while its translation is cached.
        const IF_PSCHANGE_MC_NO = 1 << 6;
        /// IA32_TSX_CTRL exists.
        const TSX_CTRL = 1 << 7;
        /// Not open to sampling after an asynchronous abort of a transaction.
        const TAA_NO = 1 << 8;
        /// No stale data from MMIO through shared buffers or the sideband.
        const SBDR_SSDP_NO = 1 << 13;
        /// No stale data from MMIO through fill buffers.
        const FBSDP_NO = 1 << 14;
        /// No stale data from MMIO through the primary path.
        const PSDP_NO = 1 << 15;
        /// VERW overwrites the fill buffers.
        const FB_CLEAR = 1 << 17;
        /// RET may take a prediction from elsewhere unless RRSBA_DIS_S restricts it.
        const RRSBA = 1 << 19;
        /// Not open to branch-history injection.
        const BHI_NO = 1 << 20;
        /// Not open to RET predictions after a barrier, from before it.
        const PBRSB_NO = 1 << 24;
        /// Not open to gather data sampling.
        const GDS_NO = 1 << 26;
        /// Not open to register-file data sampling.
        const RFDS_NO = 1 << 27;
        /// Not open to indirect-target selection.
        const ITS_NO = 1 << 62;

        const _ = !0;
    }
}

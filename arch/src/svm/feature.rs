//! What `CPUID Fn8000_000A` says. [APM2 "Enabling SVM"]

use bitflags::bitflags;
use serde::{Deserialize, Serialize};

/// The leaf.
pub const LEAF: u32 = 0x8000_000A;
/// EAX\[7:0\]: the only revision there has been.
pub const REVISION: u8 = 1;

bitflags! {
    /// `Fn8000_000A` EDX.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct SvmFeatures: u32 {
        /// NP
        const NESTED_PAGING = 1 << 0;
        const LBR_VIRTUALIZATION = 1 << 1;
        /// SVML: `VM_CR.LOCK` and SVM_KEY.
        const LOCK = 1 << 2;
        /// NRIPS: nRIP is saved on #VMEXIT.
        const NEXT_RIP_SAVE = 1 << 3;
        const TSC_RATIO_MSR = 1 << 4;
        const VMCB_CLEAN = 1 << 5;
        const FLUSH_BY_ASID = 1 << 6;
        const DECODE_ASSISTS = 1 << 7;
        const PMC_VIRTUALIZATION = 1 << 8;
        const PAUSE_FILTER = 1 << 10;
        const PAUSE_FILTER_THRESHOLD = 1 << 12;
        const AVIC = 1 << 13;
        const VIRTUAL_VMLOAD_VMSAVE = 1 << 15;
        const VIRTUAL_GIF = 1 << 16;
        /// Guest-mode execute trap.
        const GMET = 1 << 17;
        const X2AVIC = 1 << 18;
        const SUPERVISOR_SHADOW_STACK_CHECK = 1 << 19;
        const SPEC_CTRL_VIRTUALIZATION = 1 << 20;
        /// Read-only guest page tables.
        const ROGPT = 1 << 21;
        const HOST_MCE_OVERRIDE = 1 << 23;
        const TLBI_CONTROL = 1 << 24;
        const VIRTUAL_NMI = 1 << 25;
        const IBS_VIRTUALIZATION = 1 << 26;
        /// The extended LVTs (500h and above) follow the trap rule instead of faulting under AVIC.
        const EXT_LVT_AVIC_ACCESS_CHANGE = 1 << 27;
        /// VMRUN, VMLOAD and VMSAVE of an illegal address exit instead of faulting.
        const SVME_ADDRESS_CHECK = 1 << 28;
        const BUS_LOCK_THRESHOLD = 1 << 29;
        const IDLE_HLT = 1 << 30;

        const _ = !0;
    }
}

bitflags! {
    /// `Fn8000_000A` ECX.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct SvmFeatures2: u32 {
        /// PML
        const PAGE_MODIFICATION_LOGGING = 1 << 4;
        /// x2AVIC_EXT: physical tables of up to 4,096 entries.
        const X2AVIC_EXTENDED = 1 << 6;

        const _ = !0;
    }
}

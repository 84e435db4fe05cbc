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
        /// DebugCtl and the last-branch records are swapped at VMRUN and #VMEXIT.
        const LBR_VIRTUALIZATION = 1 << 1;
        /// SVML: `VM_CR.LOCK` and SVM_KEY.
        const LOCK = 1 << 2;
        /// NRIPS: nRIP is saved on #VMEXIT.
        const NEXT_RIP_SAVE = 1 << 3;
        /// MSR C000_0104h scales the guest's TSC.
        const TSC_RATIO_MSR = 1 << 4;
        /// See [`super::vmcb::CleanBits`].
        const VMCB_CLEAN = 1 << 5;
        /// TLB_CONTROL may name the guest's ASID alone: 3 and 7.
        const FLUSH_BY_ASID = 1 << 6;
        /// EXITINFO and the fetched bytes tell what the instruction was.
        const DECODE_ASSISTS = 1 << 7;
        /// The guest has performance counters of its own.
        const PMC_VIRTUALIZATION = 1 << 8;
        /// Only the last of a number of PAUSEs exits.
        const PAUSE_FILTER = 1 << 10;
        /// PAUSEs that are further apart than so many cycles restart the count.
        const PAUSE_FILTER_THRESHOLD = 1 << 12;
        /// See [`super::avic`].
        const AVIC = 1 << 13;
        /// VMLOAD and VMSAVE of a guest act on nested-translated addresses, with no exit.
        const VIRTUAL_VMLOAD_VMSAVE = 1 << 15;
        /// STGI and CLGI of a guest act on V_GIF, with no exit.
        const VIRTUAL_GIF = 1 << 16;
        /// Guest-mode execute trap.
        const GMET = 1 << 17;
        /// AVIC for guests in x2APIC mode.
        const X2AVIC = 1 << 18;
        /// Nested entries tell which pages may be supervisor shadow stacks.
        const SUPERVISOR_SHADOW_STACK_CHECK = 1 << 19;
        /// SPEC_CTRL of the guest is in the VMCB.
        const SPEC_CTRL_VIRTUALIZATION = 1 << 20;
        /// Read-only guest page tables.
        const ROGPT = 1 << 21;
        /// \#MC of a guest with CR4.MCE clear exits, and is not a shutdown, if the host's is set.
        const HOST_MCE_OVERRIDE = 1 << 23;
        /// Guests may use INVLPGB and TLBSYNC where the VMCB allows it.
        const TLBI_CONTROL = 1 << 24;
        /// V_NMI: NMIs are masked and unmasked with no exit at IRET.
        const VIRTUAL_NMI = 1 << 25;
        /// The guest has instruction-based sampling of its own.
        const IBS_VIRTUALIZATION = 1 << 26;
        /// The extended LVTs (500h and above) follow the trap rule instead of faulting under AVIC.
        const EXT_LVT_AVIC_ACCESS_CHANGE = 1 << 27;
        /// VMRUN, VMLOAD and VMSAVE of an illegal address exit instead of faulting.
        const SVME_ADDRESS_CHECK = 1 << 28;
        /// A guest exits after so many bus locks.
        const BUS_LOCK_THRESHOLD = 1 << 29;
        /// Intercepts HLT only where no virtual event would end it.
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

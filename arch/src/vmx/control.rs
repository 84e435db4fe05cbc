//! The control vectors of a VMCS. [SDM3 "VM-Execution Control Fields"]

use bitflags::bitflags;
use serde::{Deserialize, Serialize};

bitflags! {
    /// Pin-based VM-execution controls, field 4000h. [SDM3 "Pin-Based VM-Execution Controls"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct PinControls: u32 {
        const EXTERNAL_INTERRUPT_EXITING = 1 << 0;
        const NMI_EXITING = 1 << 3;
        const VIRTUAL_NMIS = 1 << 5;
        const PREEMPTION_TIMER = 1 << 6;
        const POSTED_INTERRUPTS = 1 << 7;

        const _ = !0;
    }
}

bitflags! {
    /// Primary processor-based VM-execution controls, field 4002h.
    /// [SDM3 "Processor-Based VM-Execution Controls"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct PrimaryControls: u32 {
        const INTERRUPT_WINDOW_EXITING = 1 << 2;
        const TSC_OFFSETTING = 1 << 3;
        const HLT_EXITING = 1 << 7;
        const INVLPG_EXITING = 1 << 9;
        const MWAIT_EXITING = 1 << 10;
        const RDPMC_EXITING = 1 << 11;
        const RDTSC_EXITING = 1 << 12;
        const CR3_LOAD_EXITING = 1 << 15;
        const CR3_STORE_EXITING = 1 << 16;
        const TERTIARY_CONTROLS = 1 << 17;
        const CR8_LOAD_EXITING = 1 << 19;
        const CR8_STORE_EXITING = 1 << 20;
        const TPR_SHADOW = 1 << 21;
        const NMI_WINDOW_EXITING = 1 << 22;
        const MOV_DR_EXITING = 1 << 23;
        const UNCONDITIONAL_IO_EXITING = 1 << 24;
        const IO_BITMAPS = 1 << 25;
        const MONITOR_TRAP_FLAG = 1 << 27;
        const MSR_BITMAPS = 1 << 28;
        const MONITOR_EXITING = 1 << 29;
        const PAUSE_EXITING = 1 << 30;
        const SECONDARY_CONTROLS = 1 << 31;

        const _ = !0;
    }
}

bitflags! {
    /// Secondary processor-based VM-execution controls, field 401Eh.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct SecondaryControls: u32 {
        const VIRTUALIZE_APIC_ACCESSES = 1 << 0;
        const EPT = 1 << 1;
        const DESCRIPTOR_TABLE_EXITING = 1 << 2;
        const RDTSCP = 1 << 3;
        const VIRTUALIZE_X2APIC_MODE = 1 << 4;
        const VPID = 1 << 5;
        const WBINVD_EXITING = 1 << 6;
        const UNRESTRICTED_GUEST = 1 << 7;
        const APIC_REGISTER_VIRTUALIZATION = 1 << 8;
        const VIRTUAL_INTERRUPT_DELIVERY = 1 << 9;
        const PAUSE_LOOP_EXITING = 1 << 10;
        const RDRAND_EXITING = 1 << 11;
        const INVPCID = 1 << 12;
        const VM_FUNCTIONS = 1 << 13;
        const VMCS_SHADOWING = 1 << 14;
        const ENCLS_EXITING = 1 << 15;
        const RDSEED_EXITING = 1 << 16;
        /// PML
        const PAGE_MODIFICATION_LOGGING = 1 << 17;
        /// \#VE
        const EPT_VIOLATION_EXCEPTION = 1 << 18;
        const CONCEAL_VMX_FROM_PT = 1 << 19;
        const XSAVES_XRSTORS = 1 << 20;
        const PASID_TRANSLATION = 1 << 21;
        /// MBE
        const MODE_BASED_EXECUTE = 1 << 22;
        const SUB_PAGE_WRITE_PERMISSIONS = 1 << 23;
        const PT_GUEST_PHYSICAL = 1 << 24;
        const TSC_SCALING = 1 << 25;
        const USER_WAIT_AND_PAUSE = 1 << 26;
        const PCONFIG = 1 << 27;
        const ENCLV_EXITING = 1 << 28;
        const BUS_LOCK_DETECTION = 1 << 30;
        const INSTRUCTION_TIMEOUT = 1 << 31;

        const _ = !0;
    }
}

bitflags! {
    /// Tertiary processor-based VM-execution controls, field 2034h: 64 bits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct TertiaryControls: u64 {
        const LOADIWKEY_EXITING = 1 << 0;
        /// HLAT
        const HYPERVISOR_LINEAR_TRANSLATION = 1 << 1;
        const EPT_PAGING_WRITE = 1 << 2;
        const GUEST_PAGING_VERIFICATION = 1 << 3;
        #[doc(alias = "IPIv")]
        const IPI_VIRTUALIZATION = 1 << 4;
        const GUEST_PHYSICAL_WIDTH = 1 << 5;
        const MSR_LIST = 1 << 6;
        const VIRTUALIZE_SPEC_CTRL = 1 << 7;
        const APIC_TIMER_VIRTUALIZATION = 1 << 8;
        const PEBS_GUEST_ADDRESSES = 1 << 12;

        const _ = !0;
    }
}

bitflags! {
    /// Primary VM-exit controls, field 400Ch. [SDM3 "VM-Exit Controls"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct ExitControls: u32 {
        const SAVE_DEBUG_CONTROLS = 1 << 2;
        const HOST_ADDRESS_SPACE_SIZE = 1 << 9;
        const LOAD_PERF_GLOBAL_CTRL = 1 << 12;
        const ACKNOWLEDGE_INTERRUPT = 1 << 15;
        const SAVE_PAT = 1 << 18;
        const LOAD_PAT = 1 << 19;
        const SAVE_EFER = 1 << 20;
        const LOAD_EFER = 1 << 21;
        const SAVE_PREEMPTION_TIMER = 1 << 22;
        const CLEAR_BNDCFGS = 1 << 23;
        const CONCEAL_VMX_FROM_PT = 1 << 24;
        const CLEAR_RTIT_CTL = 1 << 25;
        const CLEAR_LBR_CTL = 1 << 26;
        const CLEAR_UINV = 1 << 27;
        const LOAD_CET = 1 << 28;
        const LOAD_PKRS = 1 << 29;
        const SAVE_PERF_GLOBAL_CTRL = 1 << 30;
        const SECONDARY_CONTROLS = 1 << 31;

        const _ = !0;
    }
}

bitflags! {
    /// VM-entry controls, field 4012h. [SDM3 "VM-Entry Controls"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct EntryControls: u32 {
        const LOAD_DEBUG_CONTROLS = 1 << 2;
        const IA32E_MODE_GUEST = 1 << 9;
        const ENTRY_TO_SMM = 1 << 10;
        const DEACTIVATE_DUAL_MONITOR = 1 << 11;
        const LOAD_PERF_GLOBAL_CTRL = 1 << 13;
        const LOAD_PAT = 1 << 14;
        const LOAD_EFER = 1 << 15;
        const LOAD_BNDCFGS = 1 << 16;
        const CONCEAL_VMX_FROM_PT = 1 << 17;
        const LOAD_RTIT_CTL = 1 << 18;
        const LOAD_UINV = 1 << 19;
        const LOAD_CET = 1 << 20;
        const LOAD_LBR_CTL = 1 << 21;
        const LOAD_PKRS = 1 << 22;
        const LOAD_FRED = 1 << 23;

        const _ = !0;
    }
}

bitflags! {
    /// VM-function controls, field 2018h, and IA32_VMX_VMFUNC. [SDM3 "VM-Function Controls"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct VmFunctions: u64 {
        const EPTP_SWITCHING = 1 << 0;

        const _ = !0;
    }
}

/// Entries of the EPTP list; VMFUNC leaf 0 with an ECX at or above exits.
/// [SDM3 "EPTP Switching"]
pub const EPTP_LIST_ENTRIES: u32 = 512;

//! The control vectors of a VMCS. [SDM3 "VM-Execution Control Fields"]

use bitflags::bitflags;
use serde::{Deserialize, Serialize};

bitflags! {
    /// Pin-based VM-execution controls, field 4000h. [SDM3 "Pin-Based VM-Execution Controls"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct PinControls: u32 {
        /// Physical interrupts exit; clear, they go through the guest's IDT.
        const EXTERNAL_INTERRUPT_EXITING = 1 << 0;
        /// Physical NMIs exit.
        const NMI_EXITING = 1 << 3;
        /// "Blocking by NMI" is of virtual NMIs; needs NMI exiting.
        const VIRTUAL_NMIS = 1 << 5;
        /// A timer of the VMCS counts down in the guest, and exits at 0.
        const PREEMPTION_TIMER = 1 << 6;
        /// The notification vector merges PIR into the virtual-APIC page, with no exit.
        const POSTED_INTERRUPTS = 1 << 7;

        const _ = !0;
    }
}

bitflags! {
    /// Primary processor-based VM-execution controls, field 4002h.
    /// [SDM3 "Processor-Based VM-Execution Controls"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct PrimaryControls: u32 {
        /// Exit as soon as the guest could take an interrupt.
        const INTERRUPT_WINDOW_EXITING = 1 << 2;
        /// RDTSC and its kin add the TSC offset.
        const TSC_OFFSETTING = 1 << 3;
        /// HLT exits.
        const HLT_EXITING = 1 << 7;
        /// INVLPG exits.
        const INVLPG_EXITING = 1 << 9;
        /// MWAIT exits.
        const MWAIT_EXITING = 1 << 10;
        /// RDPMC exits.
        const RDPMC_EXITING = 1 << 11;
        /// RDTSC and RDTSCP exit.
        const RDTSC_EXITING = 1 << 12;
        /// MOV to CR3 exits, but for the CR3-target values.
        const CR3_LOAD_EXITING = 1 << 15;
        /// MOV from CR3 exits.
        const CR3_STORE_EXITING = 1 << 16;
        /// The tertiary controls count; clear, they are as 0.
        const TERTIARY_CONTROLS = 1 << 17;
        /// MOV to CR8 exits.
        const CR8_LOAD_EXITING = 1 << 19;
        /// MOV from CR8 exits.
        const CR8_STORE_EXITING = 1 << 20;
        /// CR8, and more by other controls, is the virtual TPR of the virtual-APIC page.
        const TPR_SHADOW = 1 << 21;
        /// Exit as soon as the guest could take a virtual NMI; needs virtual NMIs.
        const NMI_WINDOW_EXITING = 1 << 22;
        /// MOV to and from debug registers exits.
        const MOV_DR_EXITING = 1 << 23;
        /// Every I/O instruction exits; ignored with bitmaps.
        const UNCONDITIONAL_IO_EXITING = 1 << 24;
        /// I/O instructions exit by a bit per port.
        const IO_BITMAPS = 1 << 25;
        /// An exit after each instruction or event.
        const MONITOR_TRAP_FLAG = 1 << 27;
        /// RDMSR and WRMSR exit by a bit per MSR; clear, all of them exit.
        const MSR_BITMAPS = 1 << 28;
        /// MONITOR exits.
        const MONITOR_EXITING = 1 << 29;
        /// PAUSE exits.
        const PAUSE_EXITING = 1 << 30;
        /// The secondary controls count; clear, they are as 0.
        const SECONDARY_CONTROLS = 1 << 31;

        const _ = !0;
    }
}

bitflags! {
    /// Secondary processor-based VM-execution controls, field 401Eh.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct SecondaryControls: u32 {
        /// Accesses to the APIC-access page are virtualized, or exit.
        const VIRTUALIZE_APIC_ACCESSES = 1 << 0;
        /// Guest-physical addresses are translated by EPT.
        const EPT = 1 << 1;
        /// LGDT, LIDT, LLDT, LTR, SGDT, SIDT, SLDT and STR exit.
        const DESCRIPTOR_TABLE_EXITING = 1 << 2;
        /// RDTSCP and RDPID exist; clear, they raise #UD.
        const RDTSCP = 1 << 3;
        /// RDMSR and WRMSR of 800h–8FFh are virtualized.
        const VIRTUALIZE_X2APIC_MODE = 1 << 4;
        /// Cached translations are tagged with the VPID.
        const VPID = 1 << 5;
        /// WBINVD and WBNOINVD exit.
        const WBINVD_EXITING = 1 << 6;
        /// CR0.PG and CR0.PE may be 0; needs EPT.
        const UNRESTRICTED_GUEST = 1 << 7;
        /// Reads of most registers come from the virtual-APIC page, and writes to them go there.
        const APIC_REGISTER_VIRTUALIZATION = 1 << 8;
        /// Pending virtual interrupts are evaluated and delivered with no exit.
        const VIRTUAL_INTERRUPT_DELIVERY = 1 << 9;
        /// PAUSE exits at CPL 0 if it comes back too often.
        const PAUSE_LOOP_EXITING = 1 << 10;
        /// RDRAND exits.
        const RDRAND_EXITING = 1 << 11;
        /// INVPCID exists; clear, it raises #UD.
        const INVPCID = 1 << 12;
        /// VMFUNC exists; clear, it raises #UD.
        const VM_FUNCTIONS = 1 << 13;
        /// VMREAD and VMWRITE of the guest may act on a shadow VMCS.
        const VMCS_SHADOWING = 1 << 14;
        /// ENCLS exits by a bit per leaf.
        const ENCLS_EXITING = 1 << 15;
        /// RDSEED exits.
        const RDSEED_EXITING = 1 << 16;
        /// PML
        const PAGE_MODIFICATION_LOGGING = 1 << 17;
        /// \#VE
        const EPT_VIOLATION_EXCEPTION = 1 << 18;
        /// Processor Trace does not tell of VMX transitions.
        const CONCEAL_VMX_FROM_PT = 1 << 19;
        /// XSAVES and XRSTORS exist; clear, they raise #UD.
        const XSAVES_XRSTORS = 1 << 20;
        /// ENQCMD's and ENQCMDS's PASID is translated.
        const PASID_TRANSLATION = 1 << 21;
        /// MBE
        const MODE_BASED_EXECUTE = 1 << 22;
        /// EPT can allow writes by 128 bytes.
        const SUB_PAGE_WRITE_PERMISSIONS = 1 << 23;
        /// Output addresses of Processor Trace are guest-physical ones.
        const PT_GUEST_PHYSICAL = 1 << 24;
        /// The TSC is scaled before the offset is added.
        const TSC_SCALING = 1 << 25;
        /// UMWAIT, TPAUSE and UMONITOR exist; clear, they raise #UD.
        const USER_WAIT_AND_PAUSE = 1 << 26;
        /// PCONFIG exists; clear, it raises #UD.
        const PCONFIG = 1 << 27;
        /// ENCLV exits by a bit per leaf.
        const ENCLV_EXITING = 1 << 28;
        /// The guest exits after it has asserted a bus lock.
        const BUS_LOCK_DETECTION = 1 << 30;
        /// The guest exits if it reaches no instruction boundary for too long.
        const INSTRUCTION_TIMEOUT = 1 << 31;

        const _ = !0;
    }
}

bitflags! {
    /// Tertiary processor-based VM-execution controls, field 2034h: 64 bits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct TertiaryControls: u64 {
        /// LOADIWKEY exits.
        const LOADIWKEY_EXITING = 1 << 0;
        /// HLAT
        const HYPERVISOR_LINEAR_TRANSLATION = 1 << 1;
        /// EPT can let the processor alone write to the guest's tables.
        const EPT_PAGING_WRITE = 1 << 2;
        /// EPT can refuse a linear address whose tables lie where that write is not allowed.
        const GUEST_PAGING_VERIFICATION = 1 << 3;
        /// The ICR and the self-IPI register send IPIs through the PID-pointer table.
        #[doc(alias = "IPIv")]
        const IPI_VIRTUALIZATION = 1 << 4;
        /// Bits above a guest-physical width lead to the shared EPT pointer.
        const GUEST_PHYSICAL_WIDTH = 1 << 5;
        /// RDMSRLIST and WRMSRLIST exist; clear, they raise #UD.
        const MSR_LIST = 1 << 6;
        /// SPEC_CTRL of the guest goes through a mask and a shadow.
        const VIRTUALIZE_SPEC_CTRL = 1 << 7;
        /// IA32_TSC_DEADLINE of the guest arms a virtual timer.
        const APIC_TIMER_VIRTUALIZATION = 1 << 8;
        /// Processor event-based sampling stores through the guest's addresses.
        const PEBS_GUEST_ADDRESSES = 1 << 12;

        const _ = !0;
    }
}

bitflags! {
    /// Primary VM-exit controls, field 400Ch. [SDM3 "VM-Exit Controls"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct ExitControls: u32 {
        /// DR7 and DebugCtl go to the guest's fields.
        const SAVE_DEBUG_CONTROLS = 1 << 2;
        /// The host is in 64-bit mode after the exit.
        const HOST_ADDRESS_SPACE_SIZE = 1 << 9;
        /// IA32_PERF_GLOBAL_CTRL comes from the host's field.
        const LOAD_PERF_GLOBAL_CTRL = 1 << 12;
        /// Exits of external interrupts acknowledge them, and report the vector.
        const ACKNOWLEDGE_INTERRUPT = 1 << 15;
        /// The PAT goes to the guest's field.
        const SAVE_PAT = 1 << 18;
        /// The PAT comes from the host's field.
        const LOAD_PAT = 1 << 19;
        /// EFER goes to the guest's field.
        const SAVE_EFER = 1 << 20;
        /// EFER comes from the host's field.
        const LOAD_EFER = 1 << 21;
        /// What is left of the preemption timer goes to its field.
        const SAVE_PREEMPTION_TIMER = 1 << 22;
        /// IA32_BNDCFGS becomes 0.
        const CLEAR_BNDCFGS = 1 << 23;
        /// Processor Trace does not tell of the exit.
        const CONCEAL_VMX_FROM_PT = 1 << 24;
        /// IA32_RTIT_CTL becomes 0.
        const CLEAR_RTIT_CTL = 1 << 25;
        /// IA32_LBR_CTL becomes 0.
        const CLEAR_LBR_CTL = 1 << 26;
        /// UINV becomes 0.
        const CLEAR_UINV = 1 << 27;
        /// CET's state comes from the host's fields.
        const LOAD_CET = 1 << 28;
        /// IA32_PKRS comes from the host's field.
        const LOAD_PKRS = 1 << 29;
        /// IA32_PERF_GLOBAL_CTRL goes to the guest's field.
        const SAVE_PERF_GLOBAL_CTRL = 1 << 30;
        /// The secondary exit controls count; clear, they are as 0.
        const SECONDARY_CONTROLS = 1 << 31;

        const _ = !0;
    }
}

bitflags! {
    /// VM-entry controls, field 4012h. [SDM3 "VM-Entry Controls"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct EntryControls: u32 {
        /// DR7 and DebugCtl come from the guest's fields.
        const LOAD_DEBUG_CONTROLS = 1 << 2;
        /// The guest is in IA-32e mode; exits store EFER.LMA here.
        const IA32E_MODE_GUEST = 1 << 9;
        /// Only from SMM: the guest is in SMM.
        const ENTRY_TO_SMM = 1 << 10;
        /// Only from SMM: back to the default treatment of SMIs.
        const DEACTIVATE_DUAL_MONITOR = 1 << 11;
        /// IA32_PERF_GLOBAL_CTRL comes from the guest's field.
        const LOAD_PERF_GLOBAL_CTRL = 1 << 13;
        /// The PAT comes from the guest's field.
        const LOAD_PAT = 1 << 14;
        /// EFER comes from the guest's field.
        const LOAD_EFER = 1 << 15;
        /// IA32_BNDCFGS comes from the guest's field.
        const LOAD_BNDCFGS = 1 << 16;
        /// Processor Trace does not tell of the entry.
        const CONCEAL_VMX_FROM_PT = 1 << 17;
        /// IA32_RTIT_CTL comes from the guest's field.
        const LOAD_RTIT_CTL = 1 << 18;
        /// UINV comes from the guest's field.
        const LOAD_UINV = 1 << 19;
        /// CET's state comes from the guest's fields.
        const LOAD_CET = 1 << 20;
        /// IA32_LBR_CTL comes from the guest's field.
        const LOAD_LBR_CTL = 1 << 21;
        /// IA32_PKRS comes from the guest's field.
        const LOAD_PKRS = 1 << 22;
        /// FRED's state comes from the guest's fields.
        const LOAD_FRED = 1 << 23;

        const _ = !0;
    }
}

bitflags! {
    /// VM-function controls, field 2018h, and IA32_VMX_VMFUNC. [SDM3 "VM-Function Controls"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct VmFunctions: u64 {
        /// Leaf 0: the guest loads an EPT pointer from the list.
        const EPTP_SWITCHING = 1 << 0;

        const _ = !0;
    }
}

/// Entries of the EPTP list; VMFUNC leaf 0 with an ECX at or above exits.
/// [SDM3 "EPTP Switching"]
pub const EPTP_LIST_ENTRIES: u32 = 512;

//! Exit reasons. [SDM3 "VMX Basic Exit Reasons"]

use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// The exit-reason field, 4402h. [SDM3 "Basic VM-Exit Information"]
#[bitfield(u32)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitReasonField {
    /// \[15:0\]
    #[bits(16)]
    pub basic: ExitReason,
    #[bits(9)]
    __: u16,
    /// \[25\] a shadow-stack busy bit is set.
    pub shadow_stack_is_busy: bool,
    /// \[26\] the guest asserted a bus lock.
    pub asserted_bus_lock: bool,
    /// \[27\]
    pub was_in_enclave: bool,
    /// \[28\] a monitor trap flag exit was pending.
    pub has_pending_monitor_trap: bool,
    /// \[29\] from VMX root operation.
    pub is_from_root: bool,
    __: bool,
    /// \[31\] the entry failed; the guest did not run.
    pub is_entry_failure: bool,
}

macro_rules! exit_reasons {
    ($($(#[$doc:meta])* $name:ident = $value:literal $(as $linux:literal)?,)*) => {
        /// Why a VM exit happened.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ExitReason {
            $(
                #[doc = concat!("Basic exit reason ", stringify!($value), ".")]
                $(#[$doc])*
                $name,
            )*
            /// A number that the manual does not list.
            Unknown(u16),
        }

        impl ExitReason {
            /// Reasons that Linux's tracepoint of exits has a name for.
            pub const NAMED: &[(Self, &str)] = &[$($((Self::$name, $linux),)?)*];

            /// Decodes bits 15:0 of the field.
            pub const fn from_bits(bits: u16) -> Self {
                match bits {
                    $($value => Self::$name,)*
                    other => Self::Unknown(other),
                }
            }

            /// Bits 15:0 of the field.
            pub const fn into_bits(self) -> u16 {
                match self {
                    $(Self::$name => $value,)*
                    Self::Unknown(bits) => bits,
                }
            }

            /// What Linux's tracepoint of exits calls it, where it has a name for it.
            pub const fn linux_name(self) -> Option<&'static str> {
                match self {
                    $($(Self::$name => Some($linux),)?)*
                    _ => None,
                }
            }
        }
    };
}

exit_reasons! {
    /// An exception that the bitmap names, or an NMI.
    ExceptionOrNmi = 0 as "EXCEPTION_NMI",
    ExternalInterrupt = 1 as "EXTERNAL_INTERRUPT",
    TripleFault = 2 as "TRIPLE_FAULT",
    /// INIT arrived.
    Init = 3 as "INIT_SIGNAL",
    /// A SIPI arrived in the activity state that waits for it.
    Sipi = 4 as "SIPI_SIGNAL",
    /// An SMI right after an I/O instruction, under dual-monitor treatment.
    IoSmi = 5,
    /// Any other SMI, under dual-monitor treatment.
    OtherSmi = 6,
    /// The guest can take an interrupt.
    InterruptWindow = 7 as "INTERRUPT_WINDOW",
    /// The guest can take a virtual NMI.
    NmiWindow = 8 as "NMI_WINDOW",
    TaskSwitch = 9 as "TASK_SWITCH",
    Cpuid = 10 as "CPUID",
    Getsec = 11,
    Hlt = 12 as "HLT",
    Invd = 13 as "INVD",
    Invlpg = 14 as "INVLPG",
    Rdpmc = 15 as "RDPMC",
    Rdtsc = 16 as "RDTSC",
    Rsm = 17,
    Vmcall = 18 as "VMCALL",
    Vmclear = 19 as "VMCLEAR",
    Vmlaunch = 20 as "VMLAUNCH",
    Vmptrld = 21 as "VMPTRLD",
    Vmptrst = 22 as "VMPTRST",
    Vmread = 23 as "VMREAD",
    Vmresume = 24 as "VMRESUME",
    Vmwrite = 25 as "VMWRITE",
    Vmxoff = 26 as "VMOFF",
    Vmxon = 27 as "VMON",
    /// See [`super::qualification::ControlAccess`].
    ControlRegister = 28 as "CR_ACCESS",
    /// See [`super::qualification::DebugAccess`].
    DebugRegister = 29 as "DR_ACCESS",
    /// See [`super::qualification::IoInstruction`].
    IoInstruction = 30 as "IO_INSTRUCTION",
    Rdmsr = 31 as "MSR_READ",
    Wrmsr = 32 as "MSR_WRITE",
    /// A VM entry failed; see [`super::qualification::GuestStateFailure`].
    InvalidGuestState = 33 as "INVALID_STATE",
    /// A VM entry failed; the qualification is the number of the entry of the MSR area, from 1.
    MsrLoading = 34 as "MSR_LOAD_FAIL",
    Mwait = 36 as "MWAIT_INSTRUCTION",
    MonitorTrapFlag = 37 as "MONITOR_TRAP_FLAG",
    Monitor = 39 as "MONITOR_INSTRUCTION",
    Pause = 40 as "PAUSE_INSTRUCTION",
    /// A VM entry failed.
    MachineCheckOnEntry = 41 as "MCE_DURING_VMENTRY",
    /// The virtual TPR went below the threshold.
    TprBelowThreshold = 43 as "TPR_BELOW_THRESHOLD",
    /// See [`super::qualification::ApicAccess`].
    ApicAccess = 44 as "APIC_ACCESS",
    /// EOI of a vector that the EOI-exit bitmap names, which is the qualification.
    VirtualizedEoi = 45 as "EOI_INDUCED",
    /// LGDT, LIDT, SGDT, SIDT.
    GdtrOrIdtr = 46 as "GDTR_IDTR",
    /// LLDT, LTR, SLDT, STR.
    LdtrOrTr = 47 as "LDTR_TR",
    /// See [`super::qualification::EptViolation`].
    EptViolation = 48 as "EPT_VIOLATION",
    /// An EPT entry with reserved or contradictory bits.
    EptMisconfiguration = 49 as "EPT_MISCONFIG",
    Invept = 50 as "INVEPT",
    Rdtscp = 51 as "RDTSCP",
    /// The VMX-preemption timer came to 0.
    PreemptionTimer = 52 as "PREEMPTION_TIMER",
    Invvpid = 53 as "INVVPID",
    /// WBINVD and WBNOINVD.
    Wbinvd = 54 as "WBINVD",
    Xsetbv = 55 as "XSETBV",
    /// After a write to the virtual-APIC page, at the offset in the qualification.
    ApicWrite = 56 as "APIC_WRITE",
    Rdrand = 57 as "RDRAND",
    Invpcid = 58 as "INVPCID",
    Vmfunc = 59 as "VMFUNC",
    Encls = 60 as "ENCLS",
    Rdseed = 61 as "RDSEED",
    /// See [`super::qualification::LogFull`].
    PageModificationLogFull = 62 as "PML_FULL",
    Xsaves = 63 as "XSAVES",
    Xrstors = 64 as "XRSTORS",
    Pconfig = 65,
    SubPageEvent = 66,
    Umwait = 67 as "UMWAIT",
    Tpause = 68 as "TPAUSE",
    Loadiwkey = 69,
    Enclv = 70,
    EnqcmdPasid = 72,
    EnqcmdsPasid = 73,
    BusLock = 74 as "BUS_LOCK",
    InstructionTimeout = 75 as "NOTIFY",
    Seamcall = 76,
    Tdcall = 77 as "TDCALL",
    Rdmsrlist = 78,
    Wrmsrlist = 79,
    RdmsrImmediate = 84 as "MSR_READ_IMM",
    WrmsrImmediate = 85 as "MSR_WRITE_IMM",
}

impl ExitReason {
    /// The guest's RIP is past the instruction that led here.
    /// [SDM3 "Basic VM-Exit Information"]
    pub const fn is_trap_like(self) -> bool {
        matches!(
            self,
            Self::TprBelowThreshold | Self::VirtualizedEoi | Self::ApicWrite | Self::BusLock
        )
    }
}

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
    ($($(#[$doc:meta])* $name:ident = $value:literal,)*) => {
        /// Why a VM exit happened.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ExitReason {
            $($(#[$doc])* $name,)*
            Unknown(u16),
        }

        impl ExitReason {
            /// Every reason that the manual names.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            pub const fn from_bits(bits: u16) -> Self {
                match bits {
                    $($value => Self::$name,)*
                    other => Self::Unknown(other),
                }
            }

            pub const fn into_bits(self) -> u16 {
                match self {
                    $(Self::$name => $value,)*
                    Self::Unknown(bits) => bits,
                }
            }
        }
    };
}

exit_reasons! {
    ExceptionOrNmi = 0,
    ExternalInterrupt = 1,
    TripleFault = 2,
    Init = 3,
    Sipi = 4,
    IoSmi = 5,
    OtherSmi = 6,
    InterruptWindow = 7,
    NmiWindow = 8,
    TaskSwitch = 9,
    Cpuid = 10,
    Getsec = 11,
    Hlt = 12,
    Invd = 13,
    Invlpg = 14,
    Rdpmc = 15,
    Rdtsc = 16,
    Rsm = 17,
    Vmcall = 18,
    Vmclear = 19,
    Vmlaunch = 20,
    Vmptrld = 21,
    Vmptrst = 22,
    Vmread = 23,
    Vmresume = 24,
    Vmwrite = 25,
    Vmxoff = 26,
    Vmxon = 27,
    ControlRegister = 28,
    DebugRegister = 29,
    IoInstruction = 30,
    Rdmsr = 31,
    Wrmsr = 32,
    InvalidGuestState = 33,
    MsrLoading = 34,
    Mwait = 36,
    MonitorTrapFlag = 37,
    Monitor = 39,
    Pause = 40,
    MachineCheckOnEntry = 41,
    TprBelowThreshold = 43,
    ApicAccess = 44,
    VirtualizedEoi = 45,
    /// LGDT, LIDT, SGDT, SIDT.
    GdtrOrIdtr = 46,
    /// LLDT, LTR, SLDT, STR.
    LdtrOrTr = 47,
    EptViolation = 48,
    EptMisconfiguration = 49,
    Invept = 50,
    Rdtscp = 51,
    PreemptionTimer = 52,
    Invvpid = 53,
    /// WBINVD and WBNOINVD.
    Wbinvd = 54,
    Xsetbv = 55,
    ApicWrite = 56,
    Rdrand = 57,
    Invpcid = 58,
    Vmfunc = 59,
    Encls = 60,
    Rdseed = 61,
    PageModificationLogFull = 62,
    Xsaves = 63,
    Xrstors = 64,
    Pconfig = 65,
    SubPageEvent = 66,
    Umwait = 67,
    Tpause = 68,
    Loadiwkey = 69,
    Enclv = 70,
    EnqcmdPasid = 72,
    EnqcmdsPasid = 73,
    BusLock = 74,
    InstructionTimeout = 75,
    Seamcall = 76,
    Tdcall = 77,
    Rdmsrlist = 78,
    Wrmsrlist = 79,
    RdmsrImmediate = 84,
    WrmsrImmediate = 85,
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

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
            $(
                #[doc = concat!("Basic exit reason ", stringify!($value), ".")]
                $(#[$doc])*
                $name,
            )*
            /// A number that the manual does not list.
            Unknown(u16),
        }

        impl ExitReason {
            /// Every reason that the manual names.
            pub const ALL: &[Self] = &[$(Self::$name),*];

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
        }
    };
}

exit_reasons! {
    /// An exception that the bitmap names, or an NMI.
    ExceptionOrNmi = 0,
    ExternalInterrupt = 1,
    TripleFault = 2,
    /// INIT arrived.
    Init = 3,
    /// A SIPI arrived in the activity state that waits for it.
    Sipi = 4,
    /// An SMI right after an I/O instruction, under dual-monitor treatment.
    IoSmi = 5,
    /// Any other SMI, under dual-monitor treatment.
    OtherSmi = 6,
    /// The guest can take an interrupt.
    InterruptWindow = 7,
    /// The guest can take a virtual NMI.
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
    /// See [`super::qualification::ControlAccess`].
    ControlRegister = 28,
    /// See [`super::qualification::DebugAccess`].
    DebugRegister = 29,
    /// See [`super::qualification::IoInstruction`].
    IoInstruction = 30,
    Rdmsr = 31,
    Wrmsr = 32,
    /// A VM entry failed; see [`super::qualification::GuestStateFailure`].
    InvalidGuestState = 33,
    /// A VM entry failed; the qualification is the number of the entry of the MSR area, from 1.
    MsrLoading = 34,
    Mwait = 36,
    MonitorTrapFlag = 37,
    Monitor = 39,
    Pause = 40,
    /// A VM entry failed.
    MachineCheckOnEntry = 41,
    /// The virtual TPR went below the threshold.
    TprBelowThreshold = 43,
    /// See [`super::qualification::ApicAccess`].
    ApicAccess = 44,
    /// EOI of a vector that the EOI-exit bitmap names, which is the qualification.
    VirtualizedEoi = 45,
    /// LGDT, LIDT, SGDT, SIDT.
    GdtrOrIdtr = 46,
    /// LLDT, LTR, SLDT, STR.
    LdtrOrTr = 47,
    /// See [`super::qualification::EptViolation`].
    EptViolation = 48,
    /// An EPT entry with reserved or contradictory bits.
    EptMisconfiguration = 49,
    Invept = 50,
    Rdtscp = 51,
    /// The VMX-preemption timer came to 0.
    PreemptionTimer = 52,
    Invvpid = 53,
    /// WBINVD and WBNOINVD.
    Wbinvd = 54,
    Xsetbv = 55,
    /// After a write to the virtual-APIC page, at the offset in the qualification.
    ApicWrite = 56,
    Rdrand = 57,
    Invpcid = 58,
    Vmfunc = 59,
    Encls = 60,
    Rdseed = 61,
    /// See [`super::qualification::LogFull`].
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

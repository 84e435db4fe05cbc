//! Control registers, EFER, RFLAGS and debug registers. [APM2 "System Resources"]

use bitflags::bitflags;
use serde::{Deserialize, Serialize};

bitflags! {
    /// CR0. [APM2 "CR0 Register"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Cr0: u64 {
        const PROTECTION_ENABLE = 1 << 0;
        const MONITOR_COPROCESSOR = 1 << 1;
        const EMULATION = 1 << 2;
        const TASK_SWITCHED = 1 << 3;
        const EXTENSION_TYPE = 1 << 4;
        const NUMERIC_ERROR = 1 << 5;
        const WRITE_PROTECT = 1 << 16;
        const ALIGNMENT_MASK = 1 << 18;
        const NOT_WRITETHROUGH = 1 << 29;
        const CACHE_DISABLE = 1 << 30;
        const PAGING = 1 << 31;
    }
}

bitflags! {
    /// CR4. [APM2 "CR4 Register"] [SDM3 "Control Registers"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Cr4: u64 {
        const VME = 1 << 0;
        const PVI = 1 << 1;
        const TSD = 1 << 2;
        const DE = 1 << 3;
        const PSE = 1 << 4;
        const PAE = 1 << 5;
        const MCE = 1 << 6;
        const PGE = 1 << 7;
        const PCE = 1 << 8;
        const OSFXSR = 1 << 9;
        const OSXMMEXCPT = 1 << 10;
        const UMIP = 1 << 11;
        const LA57 = 1 << 12;
        const VMXE = 1 << 13;
        const FSGSBASE = 1 << 16;
        const PCIDE = 1 << 17;
        const OSXSAVE = 1 << 18;
        const SMEP = 1 << 20;
        const SMAP = 1 << 21;
        const PKE = 1 << 22;
        const CET = 1 << 23;
    }
}

bitflags! {
    /// EFER, MSR C000_0080h. [APM2 "Extended Feature Enable Register"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Efer: u64 {
        const SYSCALL = 1 << 0;
        const LONG_MODE_ENABLE = 1 << 8;
        const LONG_MODE_ACTIVE = 1 << 10;
        const NO_EXECUTE = 1 << 11;
        const SVM = 1 << 12;
        const LONG_MODE_SEGMENT_LIMIT = 1 << 13;
        const FAST_FXSAVE = 1 << 14;
        const TRANSLATION_CACHE_EXTENSION = 1 << 15;
        const AUTOMATIC_IBRS = 1 << 21;
    }
}

/// RFLAGS bit masks. [APM1 "rFLAGS Register"]
pub mod rflags {
    pub const CF: u64 = 1 << 0;
    /// Always one.
    pub const FIXED: u64 = 1 << 1;
    pub const PF: u64 = 1 << 2;
    pub const AF: u64 = 1 << 4;
    pub const ZF: u64 = 1 << 6;
    pub const SF: u64 = 1 << 7;
    pub const TF: u64 = 1 << 8;
    pub const IF: u64 = 1 << 9;
    pub const DF: u64 = 1 << 10;
    pub const OF: u64 = 1 << 11;
    pub const IOPL: u64 = 3 << 12;
    pub const NT: u64 = 1 << 14;
    pub const RF: u64 = 1 << 16;
    pub const VM: u64 = 1 << 17;
    pub const AC: u64 = 1 << 18;
    pub const VIF: u64 = 1 << 19;
    pub const VIP: u64 = 1 << 20;
    pub const ID: u64 = 1 << 21;
    /// The six flags that arithmetic sets.
    pub const STATUS: u64 = CF | PF | AF | ZF | SF | OF;
    /// Every flag that exists.
    pub const ALL: u64 = STATUS | FIXED | TF | IF | DF | IOPL | NT | RF | VM | AC | VIF | VIP | ID;
}

/// DR6 and DR7. [APM2 "Debug Registers"]
pub mod debug {
    pub const DR6_RESET: u64 = 0xFFFF_0FF0;
    pub const DR6_SINGLE_STEP: u64 = 1 << 14;
    pub const DR6_TASK_SWITCH: u64 = 1 << 15;
    pub const DR6_GENERAL_DETECT: u64 = 1 << 13;
    pub const DR7_RESET: u64 = 0x400;
    pub const DR7_GENERAL_DETECT: u64 = 1 << 13;
}

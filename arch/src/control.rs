//! Control registers, EFER, RFLAGS and debug registers. [APM2 "System Resources"]

use bitflags::bitflags;
use serde::{Deserialize, Serialize};

bitflags! {
    /// CR0. [APM2 "CR0 Register"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Cr0: u64 {
        /// PE: 0 is real mode.
        const PROTECTION_ENABLE = 1 << 0;
        /// MP: WAIT faults too while [`Self::TASK_SWITCHED`] is set.
        const MONITOR_COPROCESSOR = 1 << 1;
        /// EM: x87 instructions raise #NM, those of SSE #UD.
        const EMULATION = 1 << 2;
        /// TS: the next x87 or SSE instruction raises #NM.
        const TASK_SWITCHED = 1 << 3;
        /// ET: always one.
        const EXTENSION_TYPE = 1 << 4;
        /// NE: x87 errors raise #MF, and not FERR's interrupt.
        const NUMERIC_ERROR = 1 << 5;
        /// WP: supervisor writes to read-only pages fault too.
        const WRITE_PROTECT = 1 << 16;
        /// AM: lets RFLAGS.AC check alignment.
        const ALIGNMENT_MASK = 1 << 18;
        /// NW: with CD clear it is illegal.
        const NOT_WRITETHROUGH = 1 << 29;
        /// CD: no fills of the caches.
        const CACHE_DISABLE = 1 << 30;
        /// PG: needs PE.
        const PAGING = 1 << 31;
    }
}

bitflags! {
    /// CR4. [APM2 "CR4 Register"] [SDM3 "Control Registers"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Cr4: u64 {
        /// Virtual-8086 mode extensions: interrupt redirection and the virtual interrupt flag.
        const VME = 1 << 0;
        /// Protected-mode virtual interrupts: VIF for CPL 3.
        const PVI = 1 << 1;
        /// RDTSC and RDTSCP at CPL 0 alone.
        const TSD = 1 << 2;
        /// Debugging extensions: I/O breakpoints, and DR4 and DR5 no longer alias DR6 and DR7.
        const DE = 1 << 3;
        /// 4 MiB pages of 32-bit paging.
        const PSE = 1 << 4;
        /// 64-bit table entries; long mode needs it.
        const PAE = 1 << 5;
        /// Machine-check exceptions; without it a machine check is a shutdown.
        const MCE = 1 << 6;
        /// Global pages, whose translations outlive a write of CR3.
        const PGE = 1 << 7;
        /// RDPMC at every CPL.
        const PCE = 1 << 8;
        /// FXSAVE with SSE state, and SSE instructions at all.
        const OSFXSR = 1 << 9;
        /// SSE errors raise #XF and not #UD.
        const OSXMMEXCPT = 1 << 10;
        /// SGDT, SIDT, SLDT, SMSW and STR at CPL 0 alone.
        const UMIP = 1 << 11;
        /// Five levels of paging; cannot change in long mode.
        const LA57 = 1 << 12;
        /// VMXON is possible; fixed to one in VMX operation.
        const VMXE = 1 << 13;
        /// RDFSBASE and its kin at every CPL.
        const FSGSBASE = 1 << 16;
        /// Process-context identifiers in bits 11:0 of CR3.
        const PCIDE = 1 << 17;
        /// XSAVE, XGETBV and XSETBV, and XCR0 counts.
        const OSXSAVE = 1 << 18;
        /// Supervisor fetches from user pages fault.
        const SMEP = 1 << 20;
        /// Supervisor accesses to user pages fault unless RFLAGS.AC is set.
        const SMAP = 1 << 21;
        /// Protection keys of user pages; PKRU counts.
        const PKE = 1 << 22;
        /// Control-flow enforcement: shadow stacks and indirect-branch tracking; needs CR0.WP.
        const CET = 1 << 23;
        /// User interrupts: their delivery, notifications and instructions.
        const UINTR = 1 << 25;
    }
}

bitflags! {
    /// EFER, MSR C000_0080h. [APM2 "Extended Feature Enable Register"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Efer: u64 {
        /// SCE: SYSCALL and SYSRET.
        const SYSCALL = 1 << 0;
        /// LME: long mode begins when paging is next enabled.
        const LONG_MODE_ENABLE = 1 << 8;
        /// LMA: long mode is active; follows LME and CR0.PG.
        const LONG_MODE_ACTIVE = 1 << 10;
        /// NXE: bit 63 of a table entry forbids fetches and is not reserved.
        const NO_EXECUTE = 1 << 11;
        /// SVME: SVM's instructions, and MSRs that need it.
        const SVM = 1 << 12;
        /// LMSLE: limits of data segments in 64-bit mode, on the AMD parts that have them.
        const LONG_MODE_SEGMENT_LIMIT = 1 << 13;
        /// FFXSR: FXSAVE and FXRSTOR skip the XMM registers in 64-bit mode at CPL 0.
        const FAST_FXSAVE = 1 << 14;
        /// TCE: INVLPG keeps upper-level entries that do not lead to the page.
        const TRANSLATION_CACHE_EXTENSION = 1 << 15;
        /// AIBRSE: indirect branches at CPL 0–2 are restricted without a write of SPEC_CTRL.
        const AUTOMATIC_IBRS = 1 << 21;
    }
}

/// RFLAGS bit masks. [APM1 "rFLAGS Register"]
pub mod rflags {
    /// Carry.
    pub const CF: u64 = 1 << 0;
    /// Always one.
    pub const FIXED: u64 = 1 << 1;
    /// Even parity of the result's low byte.
    pub const PF: u64 = 1 << 2;
    /// Auxiliary carry, from bit 3.
    pub const AF: u64 = 1 << 4;
    /// The result is zero.
    pub const ZF: u64 = 1 << 6;
    /// Sign: the result's highest bit.
    pub const SF: u64 = 1 << 7;
    /// Trap: #DB after each instruction.
    pub const TF: u64 = 1 << 8;
    /// Maskable interrupts are taken.
    pub const IF: u64 = 1 << 9;
    /// Direction of string instructions: 1 is downwards.
    pub const DF: u64 = 1 << 10;
    /// Signed overflow.
    pub const OF: u64 = 1 << 11;
    /// The least privileged CPL that may do I/O and change IF: bits 13:12.
    pub const IOPL: u64 = 3 << 12;
    /// Nested task: IRET returns to the task that the TSS links to.
    pub const NT: u64 = 1 << 14;
    /// Resume: the next instruction ignores instruction breakpoints.
    pub const RF: u64 = 1 << 16;
    /// Virtual-8086 mode.
    pub const VM: u64 = 1 << 17;
    /// Alignment check at CPL 3; with SMAP, leave for supervisor accesses to user pages.
    pub const AC: u64 = 1 << 18;
    /// Virtual image of IF, under CR4.VME or PVI.
    pub const VIF: u64 = 1 << 19;
    /// A virtual interrupt is pending, under CR4.VME or PVI.
    pub const VIP: u64 = 1 << 20;
    /// Can be changed where CPUID exists; no other meaning.
    pub const ID: u64 = 1 << 21;
    /// The six flags that arithmetic sets.
    pub const STATUS: u64 = CF | PF | AF | ZF | SF | OF;
    /// Every flag that exists.
    pub const ALL: u64 = STATUS | FIXED | TF | IF | DF | IOPL | NT | RF | VM | AC | VIF | VIP | ID;
}

/// DR6 and DR7. [APM2 "Debug Registers"]
pub mod debug {
    /// All reserved ones, no cause.
    pub const DR6_RESET: u64 = 0xFFFF_0FF0;
    /// BS: a single step under RFLAGS.TF.
    pub const DR6_SINGLE_STEP: u64 = 1 << 14;
    /// BT: a switch to a task whose TSS has its T bit set.
    pub const DR6_TASK_SWITCH: u64 = 1 << 15;
    /// BD: the next instruction accesses a debug register under GD.
    pub const DR6_GENERAL_DETECT: u64 = 1 << 13;
    /// No breakpoint; bit 10 is always one.
    pub const DR7_RESET: u64 = 0x400;
    /// GD: accesses to debug registers raise #DB.
    pub const DR7_GENERAL_DETECT: u64 = 1 << 13;
}

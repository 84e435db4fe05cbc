//! What AVIC does with an access to each register of the APIC page, as data.
//! [APM2 "Guest vAPIC Register Access Behavior"] [APM2 "x2APIC Register Address Space"]

use serde::{Deserialize, Serialize};

/// Offsets of the registers that AVIC treats specially.
pub mod register {
    /// Bits 31:24; x2AVIC has all 32 bits.
    pub const APIC_ID: u16 = 0x020;
    /// Always the guest's to read, never to write.
    pub const VERSION: u16 = 0x030;
    /// TPR: V_TPR of the VMCB follows.
    #[doc(alias = "TPR")]
    pub const TASK_PRIORITY: u16 = 0x080;
    /// PPR, which AVIC computes.
    #[doc(alias = "PPR")]
    pub const PROCESSOR_PRIORITY: u16 = 0x0A0;
    /// EOI: clears the highest vector in service.
    #[doc(alias = "EOI")]
    pub const END_OF_INTERRUPT: u16 = 0x0B0;
    /// LDR: the logical table must follow a change of it.
    #[doc(alias = "LDR")]
    pub const LOGICAL_DESTINATION: u16 = 0x0D0;
    /// DFR: the logical table must follow a change of it; xAVIC only.
    #[doc(alias = "DFR")]
    pub const DESTINATION_FORMAT: u16 = 0x0E0;
    /// SVR: a write traps, so that software sees itself enabled or disabled.
    #[doc(alias = "SVR")]
    pub const SPURIOUS_VECTOR: u16 = 0x0F0;
    /// The first of eight registers of ISR.
    #[doc(alias = "ISR")]
    pub const IN_SERVICE: u16 = 0x100;
    /// The first of eight registers of TMR.
    #[doc(alias = "TMR")]
    pub const TRIGGER_MODE: u16 = 0x180;
    /// The first of eight registers of IRR.
    #[doc(alias = "IRR")]
    pub const INTERRUPT_REQUEST: u16 = 0x200;
    /// ESR: a write traps.
    #[doc(alias = "ESR")]
    pub const ERROR_STATUS: u16 = 0x280;
    /// The ICR's low dword, which sends; under x2AVIC the whole ICR.
    #[doc(alias = "ICRL")]
    pub const INTERRUPT_COMMAND_LOW: u16 = 0x300;
    /// The ICR's high dword; xAVIC only.
    #[doc(alias = "ICRH")]
    pub const INTERRUPT_COMMAND_HIGH: u16 = 0x310;
    /// The first of the local vector table; the six follow one another up to 370h.
    pub const TIMER_LVT: u16 = 0x320;
    /// The count is the hypervisor's to compute, so reads exit.
    pub const TIMER_CURRENT_COUNT: u16 = 0x390;
    /// An MSR only, at 16 times its distance from 800h; x2AVIC only.
    pub const SELF_IPI: u16 = 0x3F0;
}

/// What a read does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReadRule {
    /// From the backing page.
    Accelerated,
    /// #VMEXIT before the read.
    Fault,
}

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WriteRule {
    /// To the backing page, with no other effect.
    Accelerated,
    /// #VMEXIT before the write.
    Fault,
    /// #VMEXIT after the write to the backing page.
    Trap,
    /// Accelerated; V_TPR and PPR follow.
    TaskPriority,
    /// Accelerated for an edge-triggered vector, a trap for a level-triggered one.
    EndOfInterrupt,
    /// Sends an IPI.
    InterruptCommand,
    /// Sends an IPI to the sender; x2AVIC only.
    SelfIpi,
}

/// The rule for the registers from `first` to `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterRule {
    /// Offset of the first register, a multiple of 16.
    pub first: u16,
    /// Offset of the last register, a multiple of 16.
    pub last: u16,
    /// For each of them.
    pub read: ReadRule,
    /// For each of them.
    pub write: WriteRule,
}

const fn row(first: u16, last: u16, read: ReadRule, write: WriteRule) -> RegisterRule {
    RegisterRule { first, last, read, write }
}

/// The first of the extended LVTs, to which `EXT_LVT_AVIC_ACCESS_CHANGE` applies.
const EXTENDED_LVT_FIRST: u16 = 0x500;
const EXTENDED_LVT_LAST: u16 = 0x570;

/// Registers that are absent here are plain memory.
const RULES: &[RegisterRule] = {
    use ReadRule::{Accelerated as A, Fault as F};
    use WriteRule::*;
    &[
        row(0x020, 0x020, A, Trap),
        row(0x030, 0x030, A, Fault),
        row(0x080, 0x080, A, TaskPriority),
        row(0x090, 0x090, F, Fault),
        row(0x0A0, 0x0A0, A, Fault),
        row(0x0B0, 0x0B0, A, EndOfInterrupt),
        row(0x0C0, 0x0F0, A, Trap),
        row(0x100, 0x270, A, Fault),
        row(0x280, 0x280, A, Trap),
        row(0x300, 0x300, A, InterruptCommand),
        row(0x310, 0x310, A, Accelerated),
        row(0x320, 0x380, A, Trap),
        row(0x390, 0x390, F, Fault),
        row(0x3E0, 0x3E0, A, Trap),
        row(0x400, 0x420, F, Fault),
        row(0x480, 0x4F0, F, Fault),
        row(EXTENDED_LVT_FIRST, 0xFF0, F, Fault),
    ]
};

/// The rule for the register at `offset`, a multiple of 16.
pub fn rule(offset: u16, extended_lvt_change: bool) -> RegisterRule {
    use ReadRule::Accelerated;
    if extended_lvt_change && (EXTENDED_LVT_FIRST..=EXTENDED_LVT_LAST).contains(&offset) {
        return row(offset, offset, Accelerated, WriteRule::Trap);
    }
    RULES.iter().find(|rule| (rule.first..=rule.last).contains(&offset)).copied().unwrap_or(row(
        offset,
        offset,
        Accelerated,
        WriteRule::Accelerated,
    ))
}

/// What x2APIC mode allows with one MSR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MsrAccess {
    /// RDMSR is not refused with #GP.
    pub is_readable: bool,
    /// The bits that may be written as one; None where writes are refused.
    pub writable: Option<u64>,
}

const fn read_only() -> MsrAccess {
    MsrAccess { is_readable: true, writable: None }
}

const fn read_write(writable: u64) -> MsrAccess {
    MsrAccess { is_readable: true, writable: Some(writable) }
}

const fn write_only(writable: u64) -> MsrAccess {
    MsrAccess { is_readable: false, writable: Some(writable) }
}

/// ICR bits 31:20, 17:16, 13 and 12 are reserved.
const COMMAND_WRITABLE: u64 = 0xFFFF_FFFF_000C_CFFF;
/// Vector, message type, delivery status, mask.
const LVT_WRITABLE: u64 = 0x1_17FF;
/// The above and pin polarity, remote IRR, trigger mode.
const LVT_LINT_WRITABLE: u64 = 0x1_F7FF;
/// Vector, delivery status, mask, periodic; the TSC-deadline bit 18 is reserved.
const LVT_TIMER_WRITABLE: u64 = 0x3_10FF;

/// The MSRs of 800h–8FFh that exist in x2APIC mode; None for the others. [APM2 "x2APIC Registers"]
pub const fn msr_access(msr: u32) -> Option<MsrAccess> {
    Some(match msr {
        0x802 | 0x803 | 0x80A | 0x80D | 0x810..=0x827 | 0x839 => read_only(),
        0x808 => read_write(0xFF),
        0x80B => write_only(0),
        0x80F => read_write(0x3FF),
        0x828 => read_write(0),
        0x830 => read_write(COMMAND_WRITABLE),
        0x832 => read_write(LVT_TIMER_WRITABLE),
        0x833 | 0x834 | 0x837 => read_write(LVT_WRITABLE),
        0x835 | 0x836 => read_write(LVT_LINT_WRITABLE),
        0x838 => read_write(0xFFFF_FFFF),
        0x83E => read_write(0xB),
        0x83F => write_only(0xFF),
        // Extended APIC registers: feature, control, specific EOI, enables, extended LVTs.
        0x840 => read_only(),
        0x841 => read_write(0x7),
        0x842 => write_only(0xFF),
        0x848..=0x84F => read_write(0xFFFF_FFFF),
        0x850..=0x857 => read_write(LVT_WRITABLE),
        _ => return None,
    })
}

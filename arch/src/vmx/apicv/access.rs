//! What each register of the virtual-APIC page does under which VM-execution controls, as data.
//! [SDM3 "Virtualizing Memory-Mapped APIC Accesses"] [SDM3 "Virtualizing MSR-Based APIC Accesses"]

use crate::apic::Icr;
use serde::{Deserialize, Serialize};

/// Under which controls a read comes from the virtual-APIC page; without them it exits. All need
/// the TPR shadow. [SDM3 "Virtualizing Reads from the APIC-Access Page"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReadRule {
    /// The TPR shadow is enough.
    Always,
    /// Virtual-interrupt delivery, or APIC-register virtualization.
    WithDeliveryOrRegisters,
    /// APIC-register virtualization.
    WithRegisters,
    /// Every read exits.
    Never,
}

/// Under which controls a write goes to the virtual-APIC page, and what follows it. All need the
/// TPR shadow. [SDM3 "Virtualizing Writes to the APIC-Access Page"] [SDM3 "APIC-Write Emulation"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WriteRule {
    /// Always; TPR virtualization.
    TaskPriority,
    /// With virtual-interrupt delivery, EOI virtualization; with APIC-register virtualization alone
    /// an APIC-write VM exit.
    EndOfInterrupt,
    /// As [`WriteRule::EndOfInterrupt`], and with IPI virtualization: an IPI to the processor
    /// itself or to another, or an APIC-write VM exit.
    Command,
    /// With APIC-register virtualization, and with IPI virtualization: nothing follows.
    CommandHigh,
    /// With APIC-register virtualization: an APIC-write VM exit.
    Exit,
    /// Every write exits.
    Never,
}

/// The rule for the registers from `first` to `last`.
/// Offset of the first register, a multiple of 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterRule {
    /// Offset of the last register, a multiple of 16.
    pub first: u16,
    /// For each of them.
    pub last: u16,
    /// For each of them.
    pub read: ReadRule,
    /// For each of them.
    pub write: WriteRule,
}

const fn row(first: u16, last: u16, read: ReadRule, write: WriteRule) -> RegisterRule {
    RegisterRule { first, last, read, write }
}

/// Registers that are absent here are never virtualized.
const RULES: &[RegisterRule] = {
    use ReadRule::*;
    use WriteRule::{Command, CommandHigh, EndOfInterrupt, Exit, Never as Refused, TaskPriority};
    &[
        row(0x020, 0x020, WithRegisters, Exit),
        row(0x030, 0x030, WithRegisters, Refused),
        row(0x080, 0x080, Always, TaskPriority),
        row(0x0B0, 0x0B0, WithDeliveryOrRegisters, EndOfInterrupt),
        row(0x0D0, 0x0F0, WithRegisters, Exit),
        row(0x100, 0x270, WithRegisters, Refused),
        row(0x280, 0x280, WithRegisters, Exit),
        row(0x300, 0x300, WithDeliveryOrRegisters, Command),
        row(0x310, 0x310, WithRegisters, CommandHigh),
        row(0x320, 0x380, WithRegisters, Exit),
        row(0x3E0, 0x3E0, WithRegisters, Exit),
    ]
};

/// The rule for the register at `offset`, a multiple of 16.
pub fn rule(offset: u16) -> RegisterRule {
    RULES.iter().find(|rule| (rule.first..=rule.last).contains(&offset)).copied().unwrap_or(row(
        offset,
        offset,
        ReadRule::Never,
        WriteRule::Never,
    ))
}

/// Under which control WRMSR in virtualize-x2APIC mode goes to the virtual-APIC page; without it
/// the write is an ordinary one, to the processor's own APIC.
/// [SDM3 "Virtualizing MSR-Based APIC Accesses"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MsrWriteRule {
    /// Always; TPR virtualization.
    TaskPriority,
    /// With virtual-interrupt delivery; EOI virtualization.
    EndOfInterrupt,
    /// With virtual-interrupt delivery; self-IPI virtualization, or an APIC-write VM exit.
    SelfIpi,
    /// With IPI virtualization; an IPI, or an APIC-write VM exit.
    Command,
    /// Under none.
    Never,
}

impl MsrWriteRule {
    /// Bits that raise #GP where the write is virtualized.
    pub const fn reserved(self) -> u64 {
        match self {
            Self::TaskPriority | Self::SelfIpi => !0xFF,
            Self::EndOfInterrupt => !0,
            Self::Command => Icr::X2_RESERVED,
            Self::Never => 0,
        }
    }
}

/// The rule for WRMSR to 800h–8FFh.
pub const fn msr_write_rule(msr: u32) -> MsrWriteRule {
    match msr {
        0x808 => MsrWriteRule::TaskPriority,
        0x80B => MsrWriteRule::EndOfInterrupt,
        0x830 => MsrWriteRule::Command,
        0x83F => MsrWriteRule::SelfIpi,
        _ => MsrWriteRule::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_ordered_and_do_not_overlap() {
        assert!(RULES.iter().all(|rule| rule.first <= rule.last && rule.first % 16 == 0));
        assert!(RULES.windows(2).all(|pair| pair[0].last < pair[1].first));
    }
}

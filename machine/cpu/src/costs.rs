//! What a processor spends beside the cost of its instructions' classes, chosen by the board's cost
//! profile. Nothing takes time until a board says so.

use arch::apic::Register;
use arch::time::Picoseconds;
use serde::{Deserialize, Serialize};

/// Times of a processor's doings outside its pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Costs {
    /// A read of a device's memory, which the processor waits for.
    pub device_read: Picoseconds,
    /// A write to it, which is posted.
    pub device_write: Picoseconds,
    /// Accesses to the local APIC, which no device answers.
    pub apic: ApicCosts,
    /// From the last instruction to the handler's first, through the interrupt table.
    pub event_delivery: Picoseconds,
    /// IRET.
    pub event_return: Picoseconds,
}

/// Accesses to the processor's own local APIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ApicCosts {
    /// A read of the APIC page in xAPIC mode.
    pub mmio_read: Picoseconds,
    /// A write of the APIC page in xAPIC mode.
    pub mmio_write: Picoseconds,
    /// RDMSR of a register in x2APIC mode, beyond the instruction's class.
    pub msr_read: Picoseconds,
    /// WRMSR of one that has no cost of its own below, likewise.
    pub msr_write: Picoseconds,
    /// A write of the ICR or SELF IPI in x2APIC mode.
    pub msr_command: Picoseconds,
    /// A write of EOI in x2APIC mode.
    pub msr_end_of_interrupt: Picoseconds,
}

impl ApicCosts {
    pub(crate) fn of_msr_write(&self, msr: u32) -> Picoseconds {
        match Register::of_msr(msr) {
            Some(Register::Command | Register::SelfIpi) => self.msr_command,
            Some(Register::EndOfInterrupt) => self.msr_end_of_interrupt,
            _ => self.msr_write,
        }
    }
}

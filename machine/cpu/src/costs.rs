//! What a processor does beside executing instructions of known classes, and what each such step
//! takes by the board's cost profile. Nothing takes time until a board says so.

use arch::apic::Register;
use arch::time::Picoseconds;
use serde::{Deserialize, Serialize};

/// What takes time outside the pipeline, a kind each. An instruction that makes a step has the cost
/// of its class as well, unless the step says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Step {
    /// A read of a device's memory, which the processor waits for.
    DeviceRead,
    /// A write to it, which is posted.
    DeviceWrite,
    /// A read of the own local APIC's page in xAPIC mode.
    ApicRead,
    /// A write of it.
    ApicWrite,
    /// RDMSR of a register in x2APIC mode, beyond the instruction's class.
    ApicMsrRead,
    /// WRMSR of one that has no step of its own below, likewise.
    ApicMsrWrite,
    /// WRMSR of the ICR or SELF IPI, likewise.
    ApicCommand,
    /// WRMSR of EOI, likewise.
    ApicEndOfInterrupt,
    /// From the last instruction to the handler's first, through the interrupt table.
    EventDelivery,
    /// IRET.
    EventReturn,
    /// From VMRUN, VMLAUNCH or VMRESUME to the guest's first instruction.
    Entry,
    /// From the guest's last instruction to the host's first.
    Exit,
    /// VMLOAD or VMSAVE.
    StateMove,
    /// The sender's part of an IPI by AVIC: looking the target up, setting IRR, ringing.
    AvicSend,
    /// From a doorbell's arrival, or the end of what held the interrupt back, to its handler:
    /// looking at the backing page, moving the vector to ISR.
    AvicDeliver,
    /// A read of a register that AVIC completes.
    AvicRead,
    /// A write of one, EOI above all, but for what sends an IPI.
    AvicWrite,
    /// The host's write of AVIC's doorbell.
    Doorbell,
    /// IPI virtualization's part at the sender, before its notification.
    ApicvSend,
    /// Posted-interrupt processing.
    ApicvPosted,
    /// At the target, before the virtual interrupt is delivered through the interrupt table.
    ApicvDeliver,
    /// A virtualized read of a register.
    ApicvRead,
    /// A virtualized write of a register.
    ApicvWrite,
    /// SENDUIPI.
    UserSend,
    /// The processing of a notification of user interrupts.
    UserNotification,
    /// To the first instruction of the handler of user interrupts.
    UserDelivery,
    /// UIRET.
    UserReturn,
    /// The indirect-branch prediction barrier, beyond the instruction's class.
    PredictionBarrier,
    /// WRMSR of SPEC_CTRL, likewise.
    SpeculationControl,
    /// VERW where it overwrites the buffers that can be sampled, likewise.
    BufferClear,
    /// The write-back of the first-level data cache, likewise.
    CacheFlush,
}

impl Step {
    /// All of them, in their order.
    pub const ALL: [Self; Self::COUNT] = {
        use Step::*;
        [
            DeviceRead,
            DeviceWrite,
            ApicRead,
            ApicWrite,
            ApicMsrRead,
            ApicMsrWrite,
            ApicCommand,
            ApicEndOfInterrupt,
            EventDelivery,
            EventReturn,
            Entry,
            Exit,
            StateMove,
            AvicSend,
            AvicDeliver,
            AvicRead,
            AvicWrite,
            Doorbell,
            ApicvSend,
            ApicvPosted,
            ApicvDeliver,
            ApicvRead,
            ApicvWrite,
            UserSend,
            UserNotification,
            UserDelivery,
            UserReturn,
            PredictionBarrier,
            SpeculationControl,
            BufferClear,
            CacheFlush,
        ]
    };
    /// Kinds, for tables by kind.
    pub const COUNT: usize = Self::CacheFlush as usize + 1;

    pub(crate) fn of_apic_msr_write(msr: u32) -> Self {
        match Register::of_msr(msr) {
            Some(Register::Command | Register::SelfIpi) => Self::ApicCommand,
            Some(Register::EndOfInterrupt) => Self::ApicEndOfInterrupt,
            _ => Self::ApicMsrWrite,
        }
    }
}

/// What each kind of step takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StepCosts(pub [Picoseconds; Step::COUNT]);

impl StepCosts {
    /// By kind.
    pub fn new(of: impl Fn(Step) -> Picoseconds) -> Self {
        Self(Step::ALL.map(of))
    }

    /// Of one step of a kind.
    #[inline(always)]
    pub fn of(&self, step: Step) -> Picoseconds {
        self.0[step as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_stand_in_tables_where_their_numbers_are() {
        for (place, step) in Step::ALL.into_iter().enumerate() {
            assert_eq!(step as usize, place, "{step:?}");
        }
    }
}

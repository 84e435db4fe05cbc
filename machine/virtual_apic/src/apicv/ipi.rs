//! IPI virtualization, a step at a time. [SDM3 "IPI Virtualization"]
//!
//! [`IpiSend`] is a value: between any two steps another processor may run.

use super::{Apicv, ApicvExit, Notification, Posting, PostingStep};
use crate::SharedMemory;
use arch::address::SystemPhysical;
use arch::apic::{FIRST_LEGAL_VECTOR, Icr};
use arch::identity::Vector;
use arch::vmx::apicv::{NotificationControl, PID_POINTER_SIZE, PidPointer};
use serde::{Deserialize, Serialize};

/// An IPI on its way to the vCPU with APIC ID `target`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IpiSend {
    vector: Vector,
    target: u32,
    /// What SENDUIPI leaves in the ICR if the IPI is not virtualized.
    user_command: Option<u64>,
    phase: Phase,
}

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpiStep {
    /// More steps follow.
    Continue,
    /// The processor's own APIC is to send this, whatever the guest's MSR bitmap and tables say.
    Notify(Notification),
    /// There is no further step.
    Complete(IpiOutcome),
}

/// How the IPI ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpiOutcome {
    /// The request is in the target's descriptor, with no exit.
    Posted,
    /// As if the ICR had been written without IPI virtualization.
    Exit(ApicvExit),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    LookUp,
    Post(Posting),
}

impl IpiSend {
    /// For a command whose form has been found right; it is in the virtual-APIC page already.
    pub const fn new(vector: Vector, target: u32) -> Self {
        Self { vector, target, user_command: None, phase: Phase::LookUp }
    }

    /// SENDUIPI's notification: vector and destination of the receiver's user posted-interrupt
    /// descriptor name a vector and a virtual APIC ID. [SDM2 "SENDUIPI"]
    pub const fn of_user_interrupt(receiver: NotificationControl, is_x2apic: bool) -> Self {
        let target = receiver.apic_id(is_x2apic);
        let destination = if is_x2apic { target } else { target << 24 };
        let command = Icr::new().with_vector(receiver.vector()).with_destination(destination);
        Self {
            vector: Vector(receiver.vector()),
            target,
            user_command: Some(command.into_bits()),
            phase: Phase::LookUp,
        }
    }

    /// The command as an ICR in x2APIC mode would have it.
    pub const fn command(&self) -> Icr {
        Icr::new().with_vector(self.vector.0).with_destination(self.target)
    }

    /// The descriptor and the vector of the request that the last step has set.
    pub const fn requested(&self) -> Option<(SystemPhysical, Vector)> {
        match &self.phase {
            Phase::LookUp => None,
            Phase::Post(posting) => posting.requested(),
        }
    }

    /// Takes all steps at once; what is to be sent goes to `notify`.
    pub fn run(
        mut self,
        apicv: &Apicv,
        memory: &mut impl SharedMemory,
        mut notify: impl FnMut(Notification),
    ) -> IpiOutcome {
        // Bounded: five steps.
        loop {
            match self.step(apicv, memory) {
                IpiStep::Continue => {}
                IpiStep::Notify(notification) => notify(notification),
                IpiStep::Complete(outcome) => return outcome,
            }
        }
    }

    /// Takes the next step.
    pub fn step(&mut self, apicv: &Apicv, memory: &mut impl SharedMemory) -> IpiStep {
        match &mut self.phase {
            Phase::LookUp => match self.look_up(apicv, memory) {
                Some(pointer) => {
                    self.phase = Phase::Post(Posting::new(pointer.descriptor(), self.vector));
                    IpiStep::Continue
                }
                None => IpiStep::Complete(IpiOutcome::Exit(self.exit(apicv, memory))),
            },
            Phase::Post(posting) => match posting.step(memory) {
                PostingStep::Continue => IpiStep::Continue,
                PostingStep::Notify(notification) => IpiStep::Notify(notification),
                PostingStep::Complete => IpiStep::Complete(IpiOutcome::Posted),
            },
        }
    }

    /// Broadcast IDs are indices like any other, and so is the sender's own.
    fn look_up(&self, apicv: &Apicv, memory: &mut impl SharedMemory) -> Option<PidPointer> {
        let table = apicv.pid_pointers;
        if self.vector.0 < FIRST_LEGAL_VECTOR || self.target > u32::from(table.last_index) {
            return None;
        }
        let at = table.base.offset(u64::from(self.target) * PID_POINTER_SIZE);
        let pointer = PidPointer::from_bits(memory.read_u64(at));
        pointer.is_legal(apicv.physical_address_bits).then_some(pointer)
    }

    pub(super) fn exit(&self, apicv: &Apicv, memory: &mut impl SharedMemory) -> ApicvExit {
        if let Some(command) = self.user_command {
            apicv.store_command(memory, Icr::from_bits(command));
        }
        apicv.command_exit(memory)
    }
}

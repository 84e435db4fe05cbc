//! Posting a device's interrupt into a descriptor. [VTD "Interrupt-Posting Hardware Operation"]
//!
//! The descriptor is changed by one atomic access; the notification is a step of its own, between
//! which and the access processors may run.

use super::fault::Refused;
use super::{Signal, VtD};
use crate::SystemMemory;
use arch::address::SystemPhysical;
use arch::apic::Scope;
use arch::identity::{RequesterId, Vector};
use arch::vmx::apicv::POSTED_DESCRIPTOR_SIZE;
use arch::vt_d::{FaultReason, PostedEntry};
use bus::Effect;
use serde::{Deserialize, Serialize};
use virtual_apic::apicv::{Notification, post_from_device};

/// An interrupt on its way to a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Posting {
    requester: RequesterId,
    index: u32,
    is_suppressed: bool,
    descriptor: SystemPhysical,
    vector: Vector,
    is_urgent: bool,
    phase: Phase,
}

/// What one step of a posting did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostingStep {
    /// The vector is requested in this descriptor; more steps follow.
    Posted {
        /// Its physical address.
        descriptor: SystemPhysical,
        /// The one requested.
        vector: Vector,
    },
    /// The notification is among the signals; more steps follow.
    Notified,
    /// There is no further step.
    Complete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    Update,
    Notify(Notification),
    Finish,
}

impl Posting {
    pub(super) fn new(requester: RequesterId, index: u32, entry: PostedEntry) -> Self {
        Self {
            requester,
            index,
            is_suppressed: entry.suppresses_faults(),
            descriptor: entry.descriptor(),
            vector: Vector(entry.vector()),
            is_urgent: entry.is_urgent(),
            phase: Phase::Update,
        }
    }

    /// Whose interrupt it is.
    pub const fn requester(&self) -> RequesterId {
        self.requester
    }

    /// Takes the next step.
    pub fn step(&mut self, unit: &mut VtD, memory: &mut impl SystemMemory) -> PostingStep {
        match self.phase {
            Phase::Update => {
                self.phase = Phase::Finish;
                match self.update(memory) {
                    Ok(notification) => {
                        if let Some(notification) = notification {
                            self.phase = Phase::Notify(notification);
                        }
                        PostingStep::Posted { descriptor: self.descriptor, vector: self.vector }
                    }
                    Err(reason) => {
                        let (index, is_suppressed) = (self.index, self.is_suppressed);
                        unit.refuse(self.requester, Refused { reason, index, is_suppressed });
                        PostingStep::Complete
                    }
                }
            }
            Phase::Notify(notification) => {
                self.phase = Phase::Finish;
                let message = notification.message(unit.is_x2apic());
                let effect = Effect::Interrupt { message, scope: Scope::Destination };
                unit.signals.push(Signal::Notify(effect));
                PostingStep::Notified
            }
            Phase::Finish => PostingStep::Complete,
        }
    }

    fn update(&self, memory: &mut impl SystemMemory) -> Result<Option<Notification>, FaultReason> {
        if !memory.holds(self.descriptor, POSTED_DESCRIPTOR_SIZE) {
            return Err(FaultReason::DescriptorUnreachable);
        }
        post_from_device(memory, self.descriptor, self.vector, self.is_urgent)
            .map_err(|_| FaultReason::DescriptorReserved)
    }
}

//! Posting into a descriptor, and what the receiving processor does with it, a step at a time.
//! [SDM3 "Posted-Interrupt Processing"] [VTD "Interrupt-Posting Hardware Operation"]
//!
//! A sender sets the request first and looks at ON and SN second; the receiver clears ON first and
//! takes the requests second. So either the receiver finds the request, or the sender finds ON
//! clear and notifies again.

use super::{Apicv, PostedRequest};
use crate::SharedMemory;
use arch::address::SystemPhysical;
use arch::apic::{DeliveryMode, DestinationMode, InterruptMessage};
use arch::identity::Vector;
use arch::vmx::apicv::{NotificationControl, POSTED_CONTROL_OFFSET};
use interrupt::page::{ApicPage, Bank};
use serde::{Deserialize, Serialize};

/// A physical interrupt that says that a descriptor has requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Notification {
    /// The descriptor's control field, which says where to and with which vector.
    pub control: NotificationControl,
}

impl Notification {
    /// The message, which the sender's mode shapes: always physical, fixed and edge-triggered,
    /// whatever the host's own interrupts are.
    pub const fn message(self, is_x2apic: bool) -> InterruptMessage {
        InterruptMessage {
            destination: self.control.apic_id(is_x2apic),
            destination_mode: DestinationMode::Physical,
            delivery_mode: DeliveryMode::Fixed,
            vector: Vector(self.control.vector()),
            is_level: false,
            is_asserted: true,
            is_x2apic,
        }
    }
}

/// A processor's posting for an IPI. [SDM3 "IPI Virtualization"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Posting {
    descriptor: SystemPhysical,
    vector: Vector,
    phase: PostingPhase,
}

/// What one step of a posting did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostingStep {
    /// More steps follow.
    Continue,
    /// The notification is to be sent; the posting is complete.
    Notify(Notification),
    /// Complete without a notification.
    Complete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum PostingPhase {
    Request,
    Control,
    Notify(Notification),
    Finish,
}

impl Posting {
    /// A posting that has done nothing yet.
    pub const fn new(descriptor: SystemPhysical, vector: Vector) -> Self {
        Self { descriptor, vector, phase: PostingPhase::Request }
    }

    /// The descriptor and the vector of the request that the last step has set.
    pub const fn requested(&self) -> Option<(SystemPhysical, Vector)> {
        match self.phase {
            PostingPhase::Control => Some((self.descriptor, self.vector)),
            _ => None,
        }
    }

    /// Takes the next step. Request and notification control are locked apart: others may see the
    /// one without the other.
    pub fn step(&mut self, memory: &mut impl SharedMemory) -> PostingStep {
        match self.phase {
            PostingPhase::Request => {
                set_request(memory, self.descriptor, self.vector);
                self.phase = PostingPhase::Control;
                PostingStep::Continue
            }
            PostingPhase::Control => {
                self.phase = match set_outstanding(memory, self.descriptor, false) {
                    Some(notification) => PostingPhase::Notify(notification),
                    None => PostingPhase::Finish,
                };
                PostingStep::Continue
            }
            PostingPhase::Notify(notification) => {
                self.phase = PostingPhase::Finish;
                PostingStep::Notify(notification)
            }
            PostingPhase::Finish => PostingStep::Complete,
        }
    }
}

/// The descriptor has reserved bits set: the IOMMU reports a fault and posts nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedBits;

/// An IOMMU's posting: one atomic update of the descriptor. An urgent interrupt notifies although
/// notifications are suppressed. [VTD "Interrupt-Posting Hardware Operation"]
pub fn post_from_device(
    memory: &mut impl SharedMemory,
    descriptor: SystemPhysical,
    vector: Vector,
    is_urgent: bool,
) -> Result<Option<Notification>, ReservedBits> {
    let control = NotificationControl::from_bits(memory.read_u64(control_of(descriptor)));
    if control.has_reserved_bits() {
        return Err(ReservedBits);
    }
    set_request(memory, descriptor, vector);
    Ok(set_outstanding(memory, descriptor, is_urgent))
}

/// The receiver's side, for an external interrupt with the notification vector that has been
/// acknowledged in VMX non-root operation. Neither RFLAGS.IF nor the blocking by STI and MOV SS
/// holds it up, and nothing else runs on this processor until it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PostedInterruptProcessing {
    phase: ProcessingPhase,
    /// The highest vector that was posted.
    highest: Option<Vector>,
}

/// What one step of the processing did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessingStep {
    /// More steps follow.
    Continue,
    /// Zero is to be written to the processor's own EOI register.
    EndPhysicalInterrupt,
    /// There is no further step.
    Complete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum ProcessingPhase {
    ClearOutstanding,
    EndPhysicalInterrupt,
    /// The next of four quadwords of requests.
    Take(u8),
    Evaluate,
}

impl PostedInterruptProcessing {
    /// A processing that has done nothing yet.
    pub const fn new() -> Self {
        Self { phase: ProcessingPhase::ClearOutstanding, highest: None }
    }

    /// Takes all steps at once; the physical interrupt is the caller's to end.
    pub fn run(mut self, apicv: &mut Apicv, memory: &mut impl SharedMemory) {
        // Bounded: seven steps.
        while self.step(apicv, memory) != ProcessingStep::Complete {}
    }

    /// Takes the next step.
    pub fn step(&mut self, apicv: &mut Apicv, memory: &mut impl SharedMemory) -> ProcessingStep {
        match self.phase {
            ProcessingPhase::ClearOutstanding => {
                let is_outstanding = NotificationControl::new().with_is_outstanding(true);
                let control = control_of(apicv.posted_descriptor);
                memory.fetch_and_u64(control, !is_outstanding.into_bits());
                self.phase = ProcessingPhase::EndPhysicalInterrupt;
                ProcessingStep::Continue
            }
            ProcessingPhase::EndPhysicalInterrupt => {
                self.phase = ProcessingPhase::Take(0);
                ProcessingStep::EndPhysicalInterrupt
            }
            ProcessingPhase::Take(quadword) => {
                self.take(apicv, memory, quadword);
                self.phase = match quadword {
                    3 => ProcessingPhase::Evaluate,
                    _ => ProcessingPhase::Take(quadword + 1),
                };
                ProcessingStep::Continue
            }
            ProcessingPhase::Evaluate => {
                self.request_highest(apicv, memory);
                apicv.evaluate(memory);
                ProcessingStep::Complete
            }
        }
    }

    /// Moves 64 requests to VIRR. Nobody can come between their reading and their clearing.
    fn take(&mut self, apicv: &Apicv, memory: &mut impl SharedMemory, quadword: u8) {
        let at = apicv.posted_descriptor.offset(u64::from(quadword) * 8);
        let requests = memory.fetch_and_u64(at, 0);
        if requests == 0 {
            return;
        }
        let mut page = apicv.page.within(memory);
        for (dword, bits) in [requests as u32, (requests >> 32) as u32].into_iter().enumerate() {
            let first = Vector(quadword * 64 + dword as u8 * 32);
            let offset = Bank::Request.offset(first);
            let before = page.read_u32(offset);
            page.write_u32(offset, before | bits);
        }
        self.highest = Some(Vector(quadword * 64 + 63 - requests.leading_zeros() as u8));
    }

    fn request_highest(&self, apicv: &mut Apicv, memory: &mut impl SharedMemory) {
        let before = apicv.status.requesting();
        let requesting = match apicv.behaviour.posted_request {
            PostedRequest::Maximum => self.highest.map_or(before, |vector| before.max(vector.0)),
            PostedRequest::HighestInPage => {
                apicv.page.within(memory).highest(Bank::Request).map_or(0, |vector| vector.0)
            }
        };
        apicv.status.set_requesting(requesting);
    }
}

impl Default for PostedInterruptProcessing {
    fn default() -> Self {
        Self::new()
    }
}

impl Apicv {
    /// Whether an external interrupt announces posted requests instead of leaving the guest.
    pub fn is_notification(&self, vector: Vector) -> bool {
        self.controls.processes_posted_interrupts && vector == self.notification_vector
    }
}

fn control_of(descriptor: SystemPhysical) -> SystemPhysical {
    descriptor.offset(POSTED_CONTROL_OFFSET)
}

fn set_request(memory: &mut impl SharedMemory, descriptor: SystemPhysical, vector: Vector) {
    let at = descriptor.offset(u64::from(vector.0 / 64) * 8);
    memory.fetch_or_u64(at, 1 << (vector.0 % 64));
}

/// One locked access: a sender sets ON unless it is set or notifications are suppressed, and then
/// owes the notification.
fn set_outstanding(
    memory: &mut impl SharedMemory,
    descriptor: SystemPhysical,
    is_urgent: bool,
) -> Option<Notification> {
    let at = control_of(descriptor);
    let control = NotificationControl::from_bits(memory.read_u64(at));
    if control.is_outstanding() || control.is_suppressed() && !is_urgent {
        return None;
    }
    let control = control.with_is_outstanding(true);
    memory.write_u64(at, control.into_bits());
    Some(Notification { control })
}

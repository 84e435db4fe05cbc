//! An IOMMU of either vendor, as a board sees it.

use crate::{Access, AmdVi, Remapped, SystemMemory, Translation, VtD, amd_vi, vt_d};
use arch::address::{Device, SystemPhysical};
use arch::amd_vi::Event;
use arch::apic::{InterruptMessage, Scope};
use arch::identity::{ApicId, RequesterId, Vector};
use arch::msi::{DestinationWidth, MessageSignalled};
use arch::time::Picoseconds;
use arch::vt_d::FaultReason;
use bus::{DmaFault, Effect};
use serde::{Deserialize, Serialize};

/// What an IOMMU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// Whose, with what it can do.
    pub part: Part,
    /// How it does that where specifications leave a choice, or wrongly.
    pub behaviour: Behaviour,
}

/// A vendor's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// AMD's.
    AmdVi(amd_vi::Model),
    /// Intel's.
    VtD(vt_d::Model),
}

/// Points in which IOMMUs differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behaviour {
    /// See [`amd_vi::Behaviour::keeps_whole_entries`]; Intel's parts keep nothing.
    pub keeps_whole_entries: bool,
    /// Between two steps of a posting, in which processors run; zero takes all of them at once.
    pub posting_step: Picoseconds,
}

impl Part {
    /// Whether it can post an interrupt to a vCPU.
    pub const fn posts(&self) -> bool {
        match self {
            Self::AmdVi(part) => part.features.has_guest_apic(),
            Self::VtD(part) => part.capability.has_posting(),
        }
    }
}

impl From<Part> for Model {
    fn from(part: Part) -> Self {
        Self { part, behaviour: Behaviour::default() }
    }
}

/// An IOMMU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Iommu {
    /// AMD's.
    AmdVi(Box<AmdVi>),
    /// Intel's.
    VtD(Box<VtD>),
}

/// An interrupt on its way to a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Posting {
    /// Into a backing page.
    AmdVi(amd_vi::Posting),
    /// Into a posted-interrupt descriptor.
    VtD(vt_d::Posting),
}

/// What one step of a posting did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostingStep {
    /// More steps follow.
    Continue,
    /// The vector is requested in this backing page or descriptor; more steps follow.
    Posted {
        /// Its physical address.
        place: SystemPhysical,
        /// The one requested.
        vector: Vector,
    },
    /// The tag is in the GA log; more steps follow.
    Logged {
        /// As the entry has it.
        tag: u32,
    },
    /// There is no further step.
    Complete,
}

/// What an IOMMU was asked for, and what that causes elsewhere: the caller carries it there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "what was caused is lost with it"]
pub struct Outcome<T> {
    /// The answer.
    pub result: T,
    /// What was caused, oldest first.
    pub signals: Vec<Signal>,
}

/// What an IOMMU causes elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Its own interrupt or a notification, which nothing remaps.
    Effect(Effect),
    /// Its function sends its message, where software has enabled that.
    OfFunction,
    /// The doorbell of this core is to be rung.
    Doorbell(ApicId),
    /// Nobody has to do anything, but who watches is told: something was refused.
    Refused(Refusal),
}

/// What was refused, in its vendor's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// As AMD's event log has it.
    AmdVi(Event),
    /// As Intel's fault records have it.
    VtD {
        /// Whose access or interrupt it was.
        requester: RequesterId,
        /// Why.
        reason: FaultReason,
        /// The page of an access; bits 63:48 are the index of an interrupt.
        address: Device,
    },
}

impl Iommu {
    /// One after reset: all accesses and interrupts pass.
    pub fn new(model: Model) -> Self {
        let Behaviour { keeps_whole_entries, .. } = model.behaviour;
        match model.part {
            Part::AmdVi(part) => {
                Self::AmdVi(Box::new(AmdVi::new(part, amd_vi::Behaviour { keeps_whole_entries })))
            }
            Part::VtD(part) => Self::VtD(Box::new(VtD::new(part))),
        }
    }

    /// What it is.
    pub fn part(&self) -> Part {
        match self {
            Self::AmdVi(iommu) => Part::AmdVi(*iommu.model()),
            Self::VtD(unit) => Part::VtD(*unit.model()),
        }
    }

    /// Bytes that its registers take.
    pub const fn register_bytes(&self) -> u64 {
        match self {
            Self::AmdVi(_) => arch::amd_vi::register::SIZE,
            Self::VtD(_) => arch::vt_d::register::SIZE,
        }
    }

    /// Reads `size` bytes at `offset` from the registers' base.
    pub fn read(&self, offset: u64, size: u8) -> u64 {
        match self {
            Self::AmdVi(iommu) => iommu.read(offset, size),
            Self::VtD(unit) => unit.read(offset, size),
        }
    }

    /// Writes `size` bytes at `offset` from the registers' base.
    pub fn write(
        &mut self,
        memory: &mut impl SystemMemory,
        offset: u64,
        size: u8,
        value: u64,
    ) -> Outcome<()> {
        match self {
            Self::AmdVi(iommu) => iommu.write(memory, offset, size, value),
            Self::VtD(unit) => unit.write(memory, offset, size, value),
        }
        self.outcome(())
    }

    /// Finds where an access of a function leads. Refused ones are recorded.
    pub fn translate(
        &mut self,
        memory: &mut impl SystemMemory,
        requester: RequesterId,
        address: Device,
        access: Access,
    ) -> Outcome<Result<Translation, DmaFault>> {
        let found = match self {
            Self::AmdVi(iommu) => iommu.translate(memory, requester, address, access),
            Self::VtD(unit) => unit.translate(memory, requester, address, access),
        };
        self.outcome(found)
    }

    /// Looks up the interrupt that a function's write into the interrupt window means.
    pub fn remap(
        &mut self,
        memory: &mut impl SystemMemory,
        requester: RequesterId,
        message: MessageSignalled,
    ) -> Outcome<Remapped<Posting>> {
        let remapped = match self {
            Self::AmdVi(iommu) => {
                iommu.remap(memory, requester, message).map_posting(Posting::AmdVi)
            }
            Self::VtD(unit) => unit.remap(memory, requester, message).map_posting(Posting::VtD),
        };
        self.outcome(remapped)
    }

    fn outcome<T>(&mut self, result: T) -> Outcome<T> {
        let signals = match self {
            Self::AmdVi(iommu) => iommu.take_signals().into_iter().map(of_amd_vi).collect(),
            Self::VtD(unit) => {
                let is_x2apic = unit.is_x2apic();
                let signals = unit.take_signals().into_iter();
                signals.filter_map(|signal| of_vt_d(signal, is_x2apic)).collect()
            }
        };
        Outcome { result, signals }
    }
}

fn interrupt(message: InterruptMessage) -> Signal {
    Signal::Effect(Effect::Interrupt { message, scope: Scope::Destination })
}

fn of_amd_vi(signal: amd_vi::Signal) -> Signal {
    match signal {
        amd_vi::Signal::Interrupt(message) => interrupt(message),
        amd_vi::Signal::Message => Signal::OfFunction,
        amd_vi::Signal::Doorbell(core) => Signal::Doorbell(core),
        amd_vi::Signal::Refused(event) => Signal::Refused(Refusal::AmdVi(event)),
    }
}

/// None for a message that no interrupt is.
fn of_vt_d(signal: vt_d::Signal, is_x2apic: bool) -> Option<Signal> {
    Some(match signal {
        vt_d::Signal::Message(message) => interrupt(own_interrupt(message, is_x2apic)?),
        vt_d::Signal::Notify(effect) => Signal::Effect(effect),
        vt_d::Signal::Refused { requester, reason, address } => {
            Signal::Refused(Refusal::VtD { requester, reason, address })
        }
    })
}

/// A unit's own message has the upper bits of a wide destination in its upper address.
/// [VTD "Fault Event Upper Address Register"]
fn own_interrupt(message: MessageSignalled, is_x2apic: bool) -> Option<InterruptMessage> {
    let MessageSignalled { address, data } = message;
    let low = MessageSignalled { address: Device(address.0 & 0xFFFF_FFFF), data };
    let interrupt = low.interrupt(DestinationWidth::Eight)?;
    let high = if is_x2apic { (address.0 >> 32) as u32 & !0xFF } else { 0 };
    Some(InterruptMessage { destination: interrupt.destination | high, is_x2apic, ..interrupt })
}

impl Posting {
    /// Whose interrupt it is.
    pub const fn requester(&self) -> RequesterId {
        match self {
            Self::AmdVi(posting) => posting.requester(),
            Self::VtD(posting) => posting.requester(),
        }
    }

    /// Takes the next step; none if the posting is another vendor's.
    pub fn step(
        &mut self,
        iommu: &mut Iommu,
        memory: &mut impl SystemMemory,
    ) -> Outcome<PostingStep> {
        let step = match (self, &mut *iommu) {
            (Self::AmdVi(posting), Iommu::AmdVi(iommu)) => match posting.step(iommu, memory) {
                amd_vi::PostingStep::Continue => PostingStep::Continue,
                amd_vi::PostingStep::Posted { page, vector } => {
                    PostingStep::Posted { place: page, vector }
                }
                amd_vi::PostingStep::Logged { tag } => PostingStep::Logged { tag },
                amd_vi::PostingStep::Complete => PostingStep::Complete,
            },
            (Self::VtD(posting), Iommu::VtD(unit)) => match posting.step(unit, memory) {
                vt_d::PostingStep::Posted { descriptor, vector } => {
                    PostingStep::Posted { place: descriptor, vector }
                }
                vt_d::PostingStep::Notified => PostingStep::Continue,
                vt_d::PostingStep::Complete => PostingStep::Complete,
            },
            _ => PostingStep::Complete,
        };
        iommu.outcome(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_units_own_message_has_a_wide_destination_in_x2apic_mode_only() {
        let message = MessageSignalled { address: Device(0x0001_0200_FEE0_3000), data: 0x41 };
        let of = |is_x2apic| own_interrupt(message, is_x2apic).map(|i| (i.destination, i.vector));
        assert_eq!(of(true), Some((0x0001_0203, Vector(0x41))));
        assert_eq!(of(false), Some((3, Vector(0x41))));
        let elsewhere = MessageSignalled { address: Device(0x1000), data: 0x41 };
        assert_eq!(own_interrupt(elsewhere, true), None);
    }
}

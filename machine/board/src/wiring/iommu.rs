//! The IOMMU's place on the board: between functions and memory, and between their messages and the
//! processors. [IOMMU "Architecture"]
//!
//! DEVIATION(IOMMU "Device Table"): what sits on ports, the firmware configuration device among it,
//! reaches memory untranslated, as where it is the hypervisor's and not a function's.

use super::{BOARD, Wiring};
use ::iommu::{Access, Iommu, Model, Posting, PostingStep, Refusal, Remapped, Signal};
use arch::address::{Device, SystemPhysical};
use arch::identity::RequesterId;
use arch::msi::MessageSignalled;
use arch::time::Picoseconds;
use bus::{Context, DirectMemoryAccess, DmaFault, Effect, GuestMemory, Initiator};
use device::map;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use trace::Event;

/// Postings whose steps are apart.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Postings {
    /// Between two steps of one; zero if none ever waits.
    step: Picoseconds,
    /// With the moment of the next step, earliest first.
    waiting: VecDeque<(Picoseconds, Posting)>,
}

impl Postings {
    /// None yet, in steps as the IOMMU has them.
    pub fn every(iommu: Option<Model>) -> Self {
        let step = iommu.map_or(Picoseconds::ZERO, |model| model.behaviour.posting_step);
        Self { step, waiting: VecDeque::new() }
    }
}

/// Memory as functions see it.
pub(super) struct Translated<'a> {
    pub iommu: &'a mut Iommu,
    pub memory: &'a mut GuestMemory,
}

impl Translated<'_> {
    /// Calls `each` with the place of every piece that lies together, and its range within the
    /// access. A refused piece ends the access; those before it are done.
    fn pieces(
        &mut self,
        requester: RequesterId,
        address: Device,
        length: usize,
        access: Access,
        mut each: impl FnMut(&mut GuestMemory, SystemPhysical, std::ops::Range<usize>) -> bool,
    ) -> Result<(), DmaFault> {
        let mut done = 0;
        // Bounded: each turn does at least a byte.
        while done < length {
            let at = address.offset(done as u64);
            let (place, together) = if requester == map::ISA_BRIDGE.requester() {
                (SystemPhysical(at.0), u64::MAX)
            } else {
                let found = self.iommu.translate(self.memory, requester, at, access)?;
                (found.address, found.length.max(1))
            };
            let end = length.min(done.saturating_add(together.min(length as u64) as usize));
            if !each(self.memory, place, done..end) {
                return Err(DmaFault(at));
            }
            done = end;
        }
        Ok(())
    }
}

impl DirectMemoryAccess for Translated<'_> {
    fn read(
        &mut self,
        requester: RequesterId,
        address: Device,
        into: &mut [u8],
    ) -> Result<(), DmaFault> {
        let length = into.len();
        self.pieces(requester, address, length, Access::Read, |memory, place, range| {
            GuestMemory::read(memory, place, &mut into[range]).is_ok()
        })
    }

    fn write(
        &mut self,
        requester: RequesterId,
        address: Device,
        from: &[u8],
    ) -> Result<(), DmaFault> {
        self.pieces(requester, address, from.len(), Access::Write, |memory, place, range| {
            GuestMemory::write(memory, place, &from[range]).is_ok()
        })
    }
}

impl Wiring {
    /// Reads a register of the IOMMU, if one is at this address.
    pub(super) fn read_iommu(&self, address: SystemPhysical, size: u8) -> Option<u64> {
        let iommu = self.iommu.as_ref()?;
        register_offset(iommu, address).map(|offset| iommu.read(offset, size))
    }

    /// Writes a register of the IOMMU; false if none is at this address.
    pub(super) fn write_iommu(
        &mut self,
        memory: &mut GuestMemory,
        address: SystemPhysical,
        size: u8,
        value: u64,
    ) -> bool {
        let Some(iommu) = &mut self.iommu else { return false };
        let Some(offset) = register_offset(iommu, address) else { return false };
        iommu.write(memory, offset, size, value);
        true
    }

    /// What becomes of a message that was written into the interrupt window.
    pub(crate) fn remap(
        &mut self,
        memory: &mut GuestMemory,
        at: Picoseconds,
        initiator: Initiator,
        message: MessageSignalled,
    ) -> Remapped<Posting> {
        let (Some(iommu), Initiator::Device(requester)) = (&mut self.iommu, initiator) else {
            return Remapped::Unchanged;
        };
        let remapped = iommu.remap(memory, requester, message);
        self.follow_iommu(memory, at);
        remapped
    }

    /// Posts to a guest's virtual APIC: all steps at this moment, between two turns of processors,
    /// or each at a moment of its own.
    pub(crate) fn post(&mut self, memory: &mut GuestMemory, at: Picoseconds, mut posting: Posting) {
        let step = self.postings.step;
        if step != Picoseconds::ZERO {
            return self.postings.waiting.push_back((at + step, posting));
        }
        // Bounded: five steps.
        while self.step_posting(memory, at, &mut posting) {}
        self.follow_iommu(memory, at);
    }

    /// The first moment at which a device or a posting has something to do.
    pub(crate) fn next_deadline(&self) -> Option<Picoseconds> {
        let posting = self.postings.waiting.front().map(|(at, _)| *at);
        self.chipset.next_deadline().into_iter().chain(posting).min()
    }

    /// Takes the steps of postings that are due.
    pub(crate) fn advance_postings(&mut self, memory: &mut GuestMemory, now: Picoseconds) {
        // Bounded: what goes on waits for a later moment.
        while let Some((at, mut posting)) = self.postings.waiting.pop_front_if(|(at, _)| *at <= now)
        {
            if self.step_posting(memory, at, &mut posting) {
                self.postings.waiting.push_back((at + self.postings.step, posting));
            }
            self.follow_iommu(memory, at);
        }
    }

    /// False if there was no further step.
    fn step_posting(
        &mut self,
        memory: &mut GuestMemory,
        at: Picoseconds,
        posting: &mut Posting,
    ) -> bool {
        let Some(iommu) = &mut self.iommu else { return false };
        match posting.step(iommu, memory) {
            PostingStep::Posted { place, vector } => {
                self.note(BOARD, at, Event::Posted { place, vector });
            }
            PostingStep::Logged { tag } => {
                let requester = posting.requester();
                self.note(BOARD, at, Event::GuestLogged { requester, tag });
            }
            PostingStep::Continue => {}
            PostingStep::Complete => return false,
        }
        true
    }

    fn note_refusal(&mut self, at: Picoseconds, refusal: Refusal) {
        let event = match refusal {
            Refusal::AmdVi(event) => Event::IommuEvent {
                requester: event.device,
                kind: event.kind as u8,
                flags: event.flags.bits().into(),
                address: Device(event.address),
            },
            Refusal::VtD { requester, reason, address } => {
                Event::RemappingFault { requester, reason: reason as u8, address }
            }
        };
        self.note(BOARD, at, event);
    }

    /// Takes the IOMMU's signals to where they lead.
    pub(super) fn follow_iommu(&mut self, memory: &mut GuestMemory, at: Picoseconds) {
        let Some(iommu) = &mut self.iommu else { return };
        for signal in iommu.take_signals() {
            match signal {
                Signal::Effect(effect) => self.outbox.push(Initiator::Board, at, effect),
                Signal::Doorbell(target) => {
                    self.note(BOARD, at, Event::Doorbell { target });
                    self.outbox.push(Initiator::Board, at, Effect::Doorbell { target });
                }
                Signal::Refused(refusal) => self.note_refusal(at, refusal),
                Signal::OfFunction => {
                    let outbox = &mut self.outbox;
                    let mut context = Context { now: at, memory, outbox };
                    self.chipset.pci.signal_msi(&mut context, map::IOMMU_FUNCTION, 0);
                }
            }
        }
    }
}

fn register_offset(iommu: &Iommu, address: SystemPhysical) -> Option<u64> {
    address.0.checked_sub(map::IOMMU.0).filter(|offset| *offset < iommu.register_bytes())
}

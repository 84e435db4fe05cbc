//! Posting a device's interrupt to a guest's virtual APIC, a step at a time.
//! [IOMMU "Guest Virtual APIC Interrupt Controller"]
//!
//! [`Posting`] is a value: between any two steps a processor may run. A step does at most one
//! access that a processor could tell apart. The order is that of AVIC's own IPIs: the request
//! first, IsRun second. A hypervisor that takes a vCPU off its core clears IsRun first
//! and looks at the requests second, so that one of the two sees the other.

use super::{AmdVi, Signal};
use crate::SystemMemory;
use arch::address::SystemPhysical;
use arch::amd_vi::{GuestEntry, GuestLogEntry, Status, guest_log};
use arch::identity::{ApicId, RequesterId, Vector};
use interrupt::page::{ApicPage, Bank};
use serde::{Deserialize, Serialize};
use virtual_apic::PageInMemory;

/// An interrupt on its way to a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Posting {
    requester: RequesterId,
    index: u32,
    entry_at: SystemPhysical,
    page: SystemPhysical,
    vector: Vector,
    phase: Phase,
}

/// What one step of a posting did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostingStep {
    /// More steps follow.
    Continue,
    /// The vector is in IRR of this backing page; more steps follow.
    Posted {
        /// Its physical address.
        page: SystemPhysical,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    SetRequest,
    ReadRunning,
    Ring(ApicId),
    Log { tag: u32 },
    AdvanceTail,
    Finish,
}

impl Posting {
    /// A posting that has done nothing yet, from what may be cached of an entry.
    pub(super) fn new(
        requester: RequesterId,
        index: u32,
        entry_at: SystemPhysical,
        entry: GuestEntry,
    ) -> Self {
        Self {
            requester,
            index,
            entry_at,
            page: entry.backing_page(),
            vector: Vector(entry.vector()),
            phase: Phase::SetRequest,
        }
    }

    /// Whose interrupt it is.
    pub const fn requester(&self) -> RequesterId {
        self.requester
    }

    /// Takes all steps at once.
    pub fn run(mut self, iommu: &mut AmdVi, memory: &mut impl SystemMemory) {
        // Bounded: five steps.
        while self.step(iommu, memory) != PostingStep::Complete {}
    }

    /// Takes the next step. Doorbells and interrupts are among the IOMMU's signals.
    pub fn step(&mut self, iommu: &mut AmdVi, memory: &mut impl SystemMemory) -> PostingStep {
        match self.phase {
            Phase::SetRequest => {
                PageInMemory::new(self.page, memory).insert(Bank::Request, self.vector);
                self.phase = Phase::ReadRunning;
                return PostingStep::Posted { page: self.page, vector: self.vector };
            }
            Phase::ReadRunning => {
                let raw = iommu.wide_entry(memory, self.requester, self.index, self.entry_at);
                self.phase = what_follows(GuestEntry::from_bits(raw));
            }
            Phase::Ring(core) => {
                iommu.signals.push(Signal::Doorbell(core));
                self.phase = Phase::Finish;
            }
            Phase::Log { tag } => {
                let is_logged = iommu.write_guest_log(memory, self.requester, tag);
                self.phase = if is_logged { Phase::AdvanceTail } else { Phase::Finish };
                if is_logged {
                    return PostingStep::Logged { tag };
                }
            }
            Phase::AdvanceTail => {
                iommu.advance_guest_log(memory);
                self.phase = Phase::Finish;
            }
            Phase::Finish => return PostingStep::Complete,
        }
        PostingStep::Continue
    }
}

/// A running vCPU is told by a doorbell; of one that does not run the hypervisor is
/// told if it asks for that.
fn what_follows(entry: GuestEntry) -> Phase {
    if entry.is_running() {
        Phase::Ring(entry.destination())
    } else if entry.logs() {
        Phase::Log { tag: entry.tag() }
    } else {
        Phase::Finish
    }
}

impl AmdVi {
    /// Writes the entry at the tail. A log without room stops and says so: the entry is lost,
    /// although the request is in the page. [IOMMU "Guest Virtual APIC Log"]
    fn write_guest_log(
        &mut self,
        memory: &mut impl SystemMemory,
        requester: RequesterId,
        tag: u32,
    ) -> bool {
        if !self.status.contains(Status::GUEST_LOG_RUN) {
            return false;
        }
        if self.guest_log.is_full(guest_log::ENTRY_SIZE) {
            self.status.remove(Status::GUEST_LOG_RUN);
            self.raise(Status::GUEST_LOG_OVERFLOW);
            return false;
        }
        let tail = self.guest_log.tail % self.guest_log.base.bytes();
        let entry = GuestLogEntry::interrupt(requester, tag);
        memory.write_u64(self.guest_log.base.base().offset(tail), entry.into_bits());
        true
    }

    fn advance_guest_log(&mut self, memory: &mut impl SystemMemory) {
        let tail = self.guest_log.tail % self.guest_log.base.bytes();
        self.guest_log.tail = self.guest_log.behind(tail, guest_log::ENTRY_SIZE);
        if self.guest_log_tail_address != 0 {
            let at = SystemPhysical(self.guest_log_tail_address);
            memory.write_u64(at, self.guest_log.tail);
        }
        self.raise(Status::GUEST_LOG_INTERRUPT);
    }
}

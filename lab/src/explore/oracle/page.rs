//! A virtual APIC in the machine's memory, read only.

use arch::address::SystemPhysical;
use arch::identity::Vector;
use bus::GuestMemory;
use interrupt::page::{ApicPage, Bank, is_deliverable, processor_priority};

const TASK_PRIORITY: u16 = 0x80;

/// A page of APIC registers where it lies.
#[derive(Clone, Copy)]
pub(super) struct Page<'a> {
    memory: &'a GuestMemory,
    at: SystemPhysical,
}

impl<'a> Page<'a> {
    pub fn new(memory: &'a GuestMemory, at: SystemPhysical) -> Self {
        Self { memory, at }
    }

    /// The highest vector that is in service.
    pub fn in_service(&self) -> Option<Vector> {
        self.highest(Bank::InService)
    }

    /// The vector that its vCPU would take if it could take interrupts; `posted` waits beside it.
    pub fn deliverable(&self, posted: Option<Vector>) -> Option<Vector> {
        let requested = self.highest(Bank::Request).max(posted)?;
        let task = self.read_u32(TASK_PRIORITY) as u8;
        let priority = processor_priority(task, self.highest(Bank::InService));
        is_deliverable(requested, priority).then_some(requested)
    }
}

impl ApicPage for Page<'_> {
    fn read_u32(&self, offset: u16) -> u32 {
        self.memory.read_u32(self.at.offset(offset.into())).unwrap_or(0)
    }

    /// Nobody here writes.
    fn write_u32(&mut self, _: u16, _: u32) {}
}

/// The highest vector that a posted-interrupt descriptor requests.
/// [SDM3 "Posted-Interrupt Descriptor"]
pub(super) fn posted(memory: &GuestMemory, descriptor: SystemPhysical) -> Option<Vector> {
    let word = |index: u64| memory.read_u64(descriptor.offset(8 * index)).unwrap_or(0);
    let highest = (0..4).rev().find_map(|index| {
        let bits = word(index);
        (bits != 0).then(|| index as u8 * 64 + (63 - bits.leading_zeros() as u8))
    });
    highest.map(Vector)
}

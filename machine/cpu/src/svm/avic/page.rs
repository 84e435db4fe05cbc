//! The backing page, as an APIC page in memory that other processors write too.
//! [APM2 "AVIC Backing Page"]

use super::AvicMemory;
use arch::address::SystemPhysical;
use arch::identity::Vector;
use interrupt::page::{ApicPage, Bank};
use serde::{Deserialize, Serialize};

/// A virtual processor's APIC page, by its system physical address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(transparent)]
pub struct BackingPage(pub SystemPhysical);

impl BackingPage {
    pub fn within<M: AvicMemory>(self, memory: &mut M) -> PageInMemory<'_, M> {
        PageInMemory { base: self.0, memory }
    }
}

/// A backing page and the memory that holds it.
pub struct PageInMemory<'a, M> {
    base: SystemPhysical,
    memory: &'a mut M,
}

impl<M: AvicMemory> PageInMemory<'_, M> {
    fn at(&self, offset: u16) -> SystemPhysical {
        self.base.offset(u64::from(offset))
    }
}

impl<M: AvicMemory> ApicPage for PageInMemory<'_, M> {
    fn read_u32(&self, offset: u16) -> u32 {
        self.memory.read_u32(self.at(offset))
    }

    fn write_u32(&mut self, offset: u16, value: u32) {
        self.memory.write_u32(self.at(offset), value);
    }

    /// With a locked OR: senders and the IOMMU add vectors to the same dword.
    fn insert(&mut self, bank: Bank, vector: Vector) -> bool {
        let bit = 1 << (vector.0 % 32);
        self.memory.fetch_or_u32(self.at(bank.offset(vector)), bit) & bit == 0
    }

    /// With a locked AND.
    fn remove(&mut self, bank: Bank, vector: Vector) -> bool {
        let bit = 1 << (vector.0 % 32);
        self.memory.fetch_and_u32(self.at(bank.offset(vector)), !bit) & bit != 0
    }
}

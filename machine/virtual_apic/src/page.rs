//! An APIC page in memory that other processors write too.

use crate::SharedMemory;
use arch::address::SystemPhysical;
use arch::identity::Vector;
use interrupt::page::{ApicPage, Bank};

/// The page at a system physical address, and the memory that holds it.
#[derive(Debug)]
pub struct PageInMemory<'a, M> {
    base: SystemPhysical,
    memory: &'a mut M,
}

impl<'a, M: SharedMemory> PageInMemory<'a, M> {
    /// The page from `base` on, which is a multiple of 4096.
    #[inline]
    pub fn new(base: SystemPhysical, memory: &'a mut M) -> Self {
        Self { base, memory }
    }

    #[inline]
    fn at(&self, offset: u16) -> SystemPhysical {
        self.base.offset(u64::from(offset))
    }
}

impl<M: SharedMemory> ApicPage for PageInMemory<'_, M> {
    fn read_u32(&self, offset: u16) -> u32 {
        self.memory.read_u32(self.at(offset))
    }

    fn write_u32(&mut self, offset: u16, value: u32) {
        self.memory.write_u32(self.at(offset), value);
    }

    /// With a locked OR: senders and IOMMUs add vectors to the same dword.
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

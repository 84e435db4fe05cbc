//! Nested page tables: the guest's RAM from address 0 on, and, with AVIC, a page where its APIC is.
//! [APM2 "Nested Paging"]
//!
//! AVIC still walks these tables for an access to the APIC page and asks for a present, writable
//! translation; the page it leads to is not used. [APM2 "AVIC and Nested Paging"] Without AVIC the
//! address is left out, and each access becomes a nested page fault.

use crate::memory::{LARGE_PAGE, Memory};
use arch::address::SystemPhysical;
use arch::paging::entry::{LARGE, PRESENT, USER, WRITABLE};
use core::sync::atomic::{AtomicU64, Ordering};
use runtime::apic;

const ENTRIES: usize = 512;

#[repr(C, align(4096))]
struct Table([AtomicU64; ENTRIES]);

impl Table {
    const fn empty() -> Self {
        Self([const { AtomicU64::new(0) }; ENTRIES])
    }

    fn set(&self, index: usize, target: u64, bits: u64) {
        self.0[index % ENTRIES].store(target | bits, Ordering::Relaxed);
    }

    fn address(&self) -> u64 {
        core::ptr::from_ref(self) as u64
    }
}

/// The tables of one machine, and the page that stands where its APIC is.
#[repr(C)]
pub struct NestedTables {
    root: Table,
    pointers: Table,
    low_gigabyte: Table,
    apic_gigabyte: Table,
    apic_pages: Table,
    unused_page: Table,
}

/// Nested walks are user accesses.
const ALLOWED: u64 = PRESENT | WRITABLE | USER;

impl NestedTables {
    pub const fn new() -> Self {
        Self {
            root: Table::empty(),
            pointers: Table::empty(),
            low_gigabyte: Table::empty(),
            apic_gigabyte: Table::empty(),
            apic_pages: Table::empty(),
            unused_page: Table::empty(),
        }
    }

    /// Builds the tables; `has_apic_page` where AVIC is going to stand in for the page.
    pub fn build(&self, memory: Memory, has_apic_page: bool) {
        self.root.set(0, self.pointers.address(), ALLOWED);
        self.pointers.set(0, self.low_gigabyte.address(), ALLOWED);
        self.pointers.set((apic::PAGE >> 30) as usize, self.apic_gigabyte.address(), ALLOWED);
        self.apic_gigabyte.set((apic::PAGE >> 21) as usize, self.apic_pages.address(), ALLOWED);
        for index in 0..memory.size() / LARGE_PAGE {
            let target = memory.start().0 + index * LARGE_PAGE;
            self.low_gigabyte.set(index as usize, target, ALLOWED | LARGE);
        }
        let rights = if has_apic_page { ALLOWED } else { 0 };
        self.apic_pages.set((apic::PAGE >> 12) as usize, self.unused_page.address(), rights);
    }

    pub fn root(&self) -> SystemPhysical {
        SystemPhysical(self.root.address())
    }
}

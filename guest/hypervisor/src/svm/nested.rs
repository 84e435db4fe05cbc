//! Nested page tables: the guest's RAM from address 0 on, and, with AVIC, a page where its APIC is.
//! [APM2 "Nested Paging"]
//!
//! AVIC still walks these tables for an access to the APIC page and asks for a present, writable
//! translation; the page it leads to is not used. [APM2 "AVIC and Nested Paging"] Without AVIC the
//! address is left out, and each access becomes a nested page fault.

use crate::memory::{self, LARGE_PAGE};
use crate::svm::entry::Page;
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

static ROOT: Table = Table::empty();
static POINTERS: Table = Table::empty();
static LOW_GIGABYTE: Table = Table::empty();
static APIC_GIGABYTE: Table = Table::empty();
static APIC_PAGES: Table = Table::empty();
static UNUSED_PAGE: Page = Page([0; 4096]);

/// Nested walks are user accesses.
const ALLOWED: u64 = PRESENT | WRITABLE | USER;

/// Builds the tables; `has_apic_page` where AVIC is going to stand in for the page.
pub fn build(has_apic_page: bool) -> SystemPhysical {
    ROOT.set(0, POINTERS.address(), ALLOWED);
    POINTERS.set(0, LOW_GIGABYTE.address(), ALLOWED);
    POINTERS.set((apic::PAGE >> 30) as usize, APIC_GIGABYTE.address(), ALLOWED);
    APIC_GIGABYTE.set((apic::PAGE >> 21) as usize, APIC_PAGES.address(), ALLOWED);
    for index in 0..memory::size() / LARGE_PAGE {
        let target = memory::start().0 + index * LARGE_PAGE;
        LOW_GIGABYTE.set(index as usize, target, ALLOWED | LARGE);
    }
    let page = core::ptr::from_ref(&UNUSED_PAGE) as u64;
    APIC_PAGES.set((apic::PAGE >> 12) as usize, page, if has_apic_page { ALLOWED } else { 0 });
    SystemPhysical(ROOT.address())
}

//! Extended page tables: the guest's RAM from address 0 on, and, with APICv, the APIC-access page.
//! [SDM3 "The Extended Page Table Mechanism (EPT)"]
//!
//! The processor tells accesses to the guest's APIC by the address that they lead to, so that the
//! page must be mapped; what is in it is not used.
//! [SDM3 "Virtualizing Memory-Mapped APIC Accesses"] Without APICv the address is left out, and
//! each access violates EPT.

use crate::memory::{LARGE_PAGE, Memory};
use arch::vmx::ept::{EptEntry, EptPointer};
use core::sync::atomic::{AtomicU64, Ordering};
use runtime::apic;

const ENTRIES: usize = 512;

#[repr(C, align(4096))]
struct Table([AtomicU64; ENTRIES]);

impl Table {
    const fn empty() -> Self {
        Self([const { AtomicU64::new(0) }; ENTRIES])
    }

    fn set(&self, index: usize, entry: EptEntry) {
        self.0[index % ENTRIES].store(entry.into_bits(), Ordering::Relaxed);
    }

    fn address(&self) -> u64 {
        core::ptr::from_ref(self) as u64
    }
}

#[repr(C)]
pub struct EptTables {
    root: Table,
    pointers: Table,
    low_gigabyte: Table,
    apic_gigabyte: Table,
    apic_pages: Table,
    apic_access_page: Table,
}

fn table(table: &Table) -> EptEntry {
    allowed(table.address())
}

fn allowed(address: u64) -> EptEntry {
    EptEntry::new()
        .with_is_readable(true)
        .with_is_writable(true)
        .with_is_executable(true)
        .with_frame(address >> 12)
}

fn page(address: u64) -> EptEntry {
    allowed(address).with_memory_type(EptPointer::WRITE_BACK)
}

impl EptTables {
    pub const fn new() -> Self {
        Self {
            root: Table::empty(),
            pointers: Table::empty(),
            low_gigabyte: Table::empty(),
            apic_gigabyte: Table::empty(),
            apic_pages: Table::empty(),
            apic_access_page: Table::empty(),
        }
    }

    /// Builds the tables; `has_apic_page` where APICv is going to stand in for the page.
    pub fn build(&self, memory: Memory, has_apic_page: bool) {
        self.root.set(0, table(&self.pointers));
        self.pointers.set(0, table(&self.low_gigabyte));
        self.pointers.set((apic::PAGE >> 30) as usize, table(&self.apic_gigabyte));
        self.apic_gigabyte.set((apic::PAGE >> 21) as usize, table(&self.apic_pages));
        for index in 0..memory.size() / LARGE_PAGE {
            let target = memory.start().0 + index * LARGE_PAGE;
            self.low_gigabyte.set(index as usize, page(target).with_is_large(true));
        }
        let entry = if has_apic_page { page(self.apic_access_page()) } else { EptEntry::new() };
        self.apic_pages.set((apic::PAGE >> 12) as usize, entry);
    }

    pub fn apic_access_page(&self) -> u64 {
        self.apic_access_page.address()
    }

    pub fn pointer(&self) -> u64 {
        EptPointer::new()
            .with_memory_type(EptPointer::WRITE_BACK)
            .with_levels_less_one(3)
            .with_root_frame(self.root.address() >> 12)
            .into_bits()
    }
}

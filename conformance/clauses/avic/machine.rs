//! A memory with the tables and pages of one guest.

pub use crate::sparse_memory::Memory;
use arch::address::{GuestPhysical, SystemPhysical};
use arch::apic::Icr;
use arch::identity::{ApicId, Vector};
use arch::svm::avic::{LogicalEntry, PhysicalEntry, register};
use interrupt::page::{ApicPage, Bank};
use virtual_apic::SharedMemory;
use virtual_apic::avic::{Avic, AvicBehaviour, AvicMode, BackingPage, IpiOutcome, IpiSend};

pub const PHYSICAL_TABLE: u64 = 0x1_0000;
pub const LOGICAL_TABLE: u64 = 0x2_0000;
pub const PAGES: u64 = 0x10_0000;
pub const PHYSICAL_ADDRESS_BITS: u8 = 48;

impl Memory {
    pub fn set_physical(&mut self, index: u16, entry: PhysicalEntry) {
        self.write_u64(SystemPhysical(PHYSICAL_TABLE + u64::from(index) * 8), entry.into_bits());
    }

    pub fn set_logical(&mut self, index: u16, guest_apic_id: u8) {
        let entry = LogicalEntry::new().with_is_valid(true).with_guest_apic_id(guest_apic_id);
        self.write_u32(SystemPhysical(LOGICAL_TABLE + u64::from(index) * 4), entry.into_bits());
    }

    /// A valid entry for the guest's APIC `index`, running on `core` or not running.
    pub fn set_running(&mut self, index: u16, core: Option<u16>) {
        let entry = PhysicalEntry::new()
            .with_is_valid(true)
            .with_is_running(core.is_some())
            .with_host_apic_id(core.unwrap_or(0))
            .with_backing_page(page(index).0.0);
        self.set_physical(index, entry);
    }
}

/// The backing page of the guest's APIC `index`.
pub fn page(index: u16) -> Page {
    Page(BackingPage(SystemPhysical(PAGES + u64::from(index) * 0x1000)))
}

/// A backing page as a test looks at it.
#[derive(Clone, Copy)]
pub struct Page(pub BackingPage);

impl Page {
    pub fn register(self, memory: &Memory, offset: u16) -> u32 {
        memory.read_u32(self.0.0.offset(offset.into()))
    }

    pub fn set_register(self, memory: &mut Memory, offset: u16, value: u32) {
        memory.write_u32(self.0.0.offset(offset.into()), value);
    }

    pub fn contains(self, memory: &Memory, bank: Bank, vector: u8) -> bool {
        self.register(memory, bank.offset(Vector(vector))) & 1 << (vector % 32) != 0
    }

    pub fn is_requested(self, memory: &Memory, vector: u8) -> bool {
        self.contains(memory, Bank::Request, vector)
    }

    pub fn is_in_service(self, memory: &Memory, vector: u8) -> bool {
        self.contains(memory, Bank::InService, vector)
    }

    pub fn insert(self, memory: &mut Memory, bank: Bank, vector: u8) {
        self.0.within(memory).insert(bank, Vector(vector));
    }
}

/// The AVIC of the guest's APIC 0.
pub fn avic(mode: AvicMode) -> Avic {
    Avic {
        mode,
        apic_bar: GuestPhysical(0xFEE0_0000),
        backing_page: page(0).0,
        logical_table: SystemPhysical(LOGICAL_TABLE),
        physical_table: SystemPhysical(PHYSICAL_TABLE),
        max_index: if mode == AvicMode::Xapic { 254 } else { 511 },
        task_priority: 0,
        physical_address_bits: PHYSICAL_ADDRESS_BITS,
        extended_lvt_change: false,
        behaviour: AvicBehaviour::default(),
    }
}

/// Memory in which APIC `index` runs on the core that the row names. All APICs have the logical ID
/// of the flat model, and their physical ID in their page.
pub fn memory(mode: AvicMode, running: &[(u16, Option<u16>)]) -> Memory {
    let mut memory = Memory::default();
    page(0).set_register(&mut memory, register::DESTINATION_FORMAT, !0);
    for &(index, core) in running {
        memory.set_running(index, core);
        let id = if mode == AvicMode::Xapic { u32::from(index) << 24 } else { index.into() };
        page(index).set_register(&mut memory, register::APIC_ID, id);
        if index < 8 && mode == AvicMode::Xapic {
            memory.set_logical(index, index as u8);
        }
    }
    memory
}

/// Sends and lists the cores whose doorbells rang.
pub fn send(avic: &Avic, memory: &mut Memory, command: Icr) -> (IpiOutcome, Vec<u16>) {
    let mut rung = Vec::new();
    let outcome = IpiSend::new(command).run(avic, memory, |ApicId(core)| rung.push(core as u16));
    (outcome, rung)
}

/// The APICs among `indices` in whose page `vector` is requested.
pub fn requested(memory: &Memory, indices: &[u16], vector: u8) -> Vec<u16> {
    let is_requested = |index: &u16| page(*index).is_requested(memory, vector);
    indices.iter().copied().filter(is_requested).collect()
}

//! A memory with the virtual-APIC page, the descriptors and the table of one guest.

pub use crate::sparse_memory::Memory;
use arch::address::SystemPhysical;
use arch::identity::Vector;
use arch::vmx::apicv::{
    GuestInterruptStatus, NotificationControl, POSTED_CONTROL_OFFSET, POSTED_DESCRIPTOR_SIZE,
    PidPointer,
};
use interrupt::page::{ApicPage, Bank, VectorSet};
use virtual_apic::SharedMemory;
use virtual_apic::apicv::{Apicv, ApicvBehaviour, ApicvControls, PidPointerTable, VirtualApicPage};

pub const PAGE: u64 = 0x10_0000;
pub const ACCESS_PAGE: u64 = 0xFEE0_0000;
pub const DESCRIPTORS: u64 = 0x2_0000;
pub const TABLE: u64 = 0x3_0000;
pub const LAST_INDEX: u16 = 7;
pub const PHYSICAL_ADDRESS_BITS: u8 = 46;
pub const NOTIFICATION: Vector = Vector(0xF2);

/// Everything that KVM turns on, in xAPIC mode.
pub const XAPIC: ApicvControls = ApicvControls {
    uses_tpr_shadow: true,
    virtualizes_accesses: true,
    virtualizes_x2apic: false,
    virtualizes_registers: true,
    delivers_interrupts: true,
    processes_posted_interrupts: true,
    virtualizes_ipis: true,
    exits_at_interrupt_window: false,
};
/// The same in x2APIC mode.
pub const X2APIC: ApicvControls =
    ApicvControls { virtualizes_accesses: false, virtualizes_x2apic: true, ..XAPIC };

/// The virtual APIC 0.
pub fn apicv(controls: ApicvControls) -> Apicv {
    Apicv {
        controls,
        page: VirtualApicPage(SystemPhysical(PAGE)),
        access_page: SystemPhysical(ACCESS_PAGE),
        tpr_threshold: 0,
        eoi_exits: VectorSet::default(),
        posted_descriptor: descriptor(0),
        notification_vector: NOTIFICATION,
        pid_pointers: PidPointerTable { base: SystemPhysical(TABLE), last_index: LAST_INDEX },
        physical_address_bits: PHYSICAL_ADDRESS_BITS,
        status: GuestInterruptStatus::new(),
        is_recognized: false,
        unfinished_write: None,
        behaviour: ApicvBehaviour::default(),
    }
}

/// Every combination of the controls that decide about accesses.
pub fn control_sets() -> impl Iterator<Item = ApicvControls> {
    (0..64u8).map(|bits| ApicvControls {
        uses_tpr_shadow: bits & 1 != 0,
        virtualizes_accesses: bits & 2 != 0,
        virtualizes_x2apic: bits & 4 != 0,
        virtualizes_registers: bits & 8 != 0,
        delivers_interrupts: bits & 16 != 0,
        virtualizes_ipis: bits & 32 != 0,
        ..ApicvControls::default()
    })
}

pub fn descriptor(index: u16) -> SystemPhysical {
    SystemPhysical(DESCRIPTORS + u64::from(index) * POSTED_DESCRIPTOR_SIZE)
}

pub fn register(memory: &Memory, offset: u16) -> u32 {
    memory.read_u32(SystemPhysical(PAGE + u64::from(offset)))
}

pub fn set_register(memory: &mut Memory, offset: u16, value: u32) {
    memory.write_u32(SystemPhysical(PAGE + u64::from(offset)), value);
}

pub fn contains(memory: &Memory, bank: Bank, vector: u8) -> bool {
    register(memory, bank.offset(Vector(vector))) & 1 << (vector % 32) != 0
}

pub fn insert(memory: &mut Memory, bank: Bank, vector: u8) {
    VirtualApicPage(SystemPhysical(PAGE)).within(memory).insert(bank, Vector(vector));
}

pub fn control(memory: &Memory, index: u16) -> NotificationControl {
    let at = descriptor(index).offset(POSTED_CONTROL_OFFSET);
    NotificationControl::from_bits(memory.read_u64(at))
}

pub fn set_control(memory: &mut Memory, index: u16, control: NotificationControl) {
    memory.write_u64(descriptor(index).offset(POSTED_CONTROL_OFFSET), control.into_bits());
}

pub fn is_posted(memory: &Memory, index: u16, vector: u8) -> bool {
    let at = descriptor(index).offset(u64::from(vector / 64) * 8);
    memory.read_u64(at) & 1 << (vector % 64) != 0
}

pub fn post(memory: &mut Memory, index: u16, vector: u8) {
    memory.fetch_or_u64(descriptor(index).offset(u64::from(vector / 64) * 8), 1 << (vector % 64));
}

pub fn set_pointer(memory: &mut Memory, index: u16, pointer: PidPointer) {
    memory.write_u64(SystemPhysical(TABLE + u64::from(index) * 8), pointer.into_bits());
}

/// A valid entry for each of the guest's APICs, to be notified on the core of the same number.
pub fn memory_with_table() -> Memory {
    let mut memory = Memory::default();
    for index in 0..=LAST_INDEX {
        let pointer = PidPointer::new().with_is_valid(true).with_descriptor(descriptor(index));
        set_pointer(&mut memory, index, pointer);
        let control = NotificationControl::new()
            .with_vector(NOTIFICATION.0)
            .with_destination(u32::from(index) << 8);
        set_control(&mut memory, index, control);
    }
    memory
}

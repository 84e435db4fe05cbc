//! The local APICs that the clauses are about.

use arch::apic::{ApicBase, DeliveryMode, DestinationMode, InterruptMessage, Register};
use arch::identity::{ApicId, Vector};
use arch::time::Picoseconds;
use bus::Effect;
use interrupt::{Acceptance, LocalApic, LocalApicModel};

pub const NOW: Picoseconds = Picoseconds::ZERO;
pub const PHYSICAL_BITS: u8 = 48;
pub const DISABLED: u64 = ApicBase::RESET_ADDRESS;
pub const XAPIC: u64 = DISABLED | 1 << 11;
pub const X2APIC: u64 = XAPIC | 1 << 10;

pub fn amd(id: u32) -> LocalApicModel {
    LocalApicModel::amd(ApicId(id), id == 0)
}

pub fn intel(id: u32) -> LocalApicModel {
    LocalApicModel::intel(ApicId(id), id == 0)
}

/// Both vendors, for rules that both manuals have.
pub fn models(id: u32) -> [LocalApicModel; 2] {
    [amd(id), intel(id)]
}

/// In xAPIC mode, enabled by software, spurious vector FFh.
pub fn xapic(model: LocalApicModel) -> LocalApic {
    let mut apic = LocalApic::new(model);
    write(&mut apic, Register::SpuriousVector, 0x1FF);
    apic
}

/// In x2APIC mode, enabled by software, spurious vector FFh.
pub fn x2apic(model: LocalApicModel) -> LocalApic {
    let mut apic = xapic(model);
    apic.write_base(X2APIC, NOW, PHYSICAL_BITS).expect("xAPIC mode leads to x2APIC mode");
    apic
}

/// Writes through the door that the mode has open.
pub fn write_at(
    apic: &mut LocalApic,
    register: Register,
    value: u32,
    now: Picoseconds,
) -> Vec<Effect> {
    let mut out = Vec::new();
    if apic.is_x2apic() {
        let msr = register.msr().expect("the register has an MSR");
        apic.write_msr(msr, u64::from(value), now, &mut out).expect("the write is legal");
    } else {
        apic.write_mmio(register.offset(), 4, u64::from(value), now, &mut out);
    }
    out
}

pub fn write(apic: &mut LocalApic, register: Register, value: u32) -> Vec<Effect> {
    write_at(apic, register, value, NOW)
}

pub fn read_at(apic: &mut LocalApic, register: Register, now: Picoseconds) -> u32 {
    if apic.is_x2apic() {
        let msr = register.msr().expect("the register has an MSR");
        apic.read_msr(msr, now).expect("the read is legal") as u32
    } else {
        apic.read_mmio(register.offset(), 4, now) as u32
    }
}

pub fn read(apic: &mut LocalApic, register: Register) -> u32 {
    read_at(apic, register, NOW)
}

pub fn fixed(vector: u8) -> InterruptMessage {
    InterruptMessage {
        destination: 0,
        destination_mode: DestinationMode::Physical,
        delivery_mode: DeliveryMode::Fixed,
        vector: Vector(vector),
        is_level: false,
        is_asserted: true,
        is_x2apic: false,
    }
}

pub fn level(vector: u8) -> InterruptMessage {
    InterruptMessage { is_level: true, ..fixed(vector) }
}

pub fn queue(apic: &mut LocalApic, message: InterruptMessage) {
    assert_eq!(apic.accept(&message), Acceptance::Queued, "{message:?}");
}

/// Takes and ends everything deliverable; the vectors in order.
pub fn drain(apic: &mut LocalApic) -> Vec<u8> {
    let mut vectors = Vec::new();
    while apic.pending().is_some() && vectors.len() < 256 {
        vectors.push(apic.acknowledge().0);
        write(apic, Register::EndOfInterrupt, 0);
    }
    vectors
}

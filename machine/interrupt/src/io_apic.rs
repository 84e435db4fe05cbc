//! The I/O APIC: pins to messages. [IOAPIC "Functional Description"]
//!
//! A pin's level is a logical state, asserted or not; the polarity bit of its entry says how
//! software believes the wire is made and changes nothing here, as in every machine whose devices
//! are not wires. A message leaves as a write into the interrupt window, so that an interrupt
//! remapper sees what it sees on hardware.
//!
//! DEVIATION(IOAPIC "I/O Redirection Table Registers"): delivery status always reads idle.

use arch::address::Device;
use arch::apic::{DeliveryMode, IoRegister, IoVersion, RedirectionEntry, io_mmio};
use arch::identity::{RequesterId, Vector};
use arch::msi::{MessageAddress, MessageData, MessageSignalled, WINDOW_START};
use bus::Effect;
use serde::{Deserialize, Serialize};

/// The most pins that the version register allows.
pub const MAX_PINS: u8 = 240;
/// The first version with an EOI register.
const FIRST_VERSION_WITH_EOI: u8 = 0x20;

/// What differs between I/O APICs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoApicModel {
    /// 11h for the 82093AA, 20h and more with an EOI register.
    pub version: u8,
    /// 1 to 240; more is taken as 240, none as one.
    pub pins: u8,
    /// Under which name an IOMMU sees the messages.
    pub requester: RequesterId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Pin {
    entry: u64,
    is_asserted: bool,
}

impl Pin {
    fn entry(&self) -> RedirectionEntry {
        RedirectionEntry::from_bits(self.entry)
    }
}

/// An I/O APIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoApic {
    model: IoApicModel,
    select: u16,
    id: u8,
    pins: Vec<Pin>,
}

impl IoApic {
    /// Every pin masked and not asserted.
    pub fn new(model: IoApicModel) -> Self {
        let pins = usize::from(model.pins.clamp(1, MAX_PINS));
        let pin = Pin { entry: RedirectionEntry::RESET, is_asserted: false };
        Self { model, select: 0, id: 0, pins: vec![pin; pins] }
    }

    /// Reset. The levels of the pins are the board's and stay.
    pub fn reset(&mut self) {
        self.select = 0;
        self.id = 0;
        for pin in &mut self.pins {
            pin.entry = RedirectionEntry::RESET;
        }
    }

    /// What it was made from.
    pub fn model(&self) -> &IoApicModel {
        &self.model
    }

    /// The initiator under which the board must send on what this I/O APIC emits.
    pub fn requester(&self) -> RequesterId {
        self.model.requester
    }

    /// 1 to 240.
    pub fn pin_count(&self) -> u8 {
        self.pins.len() as u8
    }

    /// The redirection entry of `pin`, for the board's reports.
    pub fn entry(&self, pin: u8) -> Option<RedirectionEntry> {
        self.pins.get(usize::from(pin)).map(Pin::entry)
    }

    /// What `pin` sends, masked or not, if it is level-triggered: for who has to look out for the
    /// EOI of it.
    pub fn level_message(&self, pin: u8) -> Option<MessageSignalled> {
        self.entry(pin).filter(RedirectionEntry::is_level).map(message)
    }

    /// The level of `pin`, for the board's reports.
    pub fn is_asserted(&self, pin: u8) -> Option<bool> {
        self.pins.get(usize::from(pin)).map(|pin| pin.is_asserted)
    }

    /// Reads the window; the offset is relative to the I/O APIC's base.
    pub fn read_mmio(&mut self, offset: u16, size: u8) -> u64 {
        let value = match offset & 0xFF {
            io_mmio::SELECT => u32::from(self.select),
            io_mmio::WINDOW => self.read_selected(),
            _ => 0,
        };
        let mask = if size >= 4 { u32::MAX } else { (1 << (8 * u32::from(size))) - 1 };
        u64::from(value & mask)
    }

    /// Writes the window. Registers are dwords; a narrower write is zero-extended.
    pub fn write_mmio(&mut self, offset: u16, _size: u8, value: u64, out: &mut Vec<Effect>) {
        let value = value as u32;
        match offset & 0xFF {
            io_mmio::SELECT => self.select = value as u16,
            io_mmio::WINDOW => self.write_selected(value, out),
            io_mmio::END_OF_INTERRUPT if self.model.version >= FIRST_VERSION_WITH_EOI => {
                self.end_of_interrupt(Vector(value as u8), out);
            }
            _ => {}
        }
    }

    fn read_selected(&self) -> u32 {
        match IoRegister::at(self.select) {
            Some(IoRegister::Id | IoRegister::Arbitration) => u32::from(self.id) << 24,
            Some(IoRegister::Version) => IoVersion::new()
                .with_version(self.model.version)
                .with_last_pin(self.pin_count() - 1)
                .into_bits(),
            Some(IoRegister::RedirectionLow(pin)) => self.read_entry(pin) as u32,
            Some(IoRegister::RedirectionHigh(pin)) => (self.read_entry(pin) >> 32) as u32,
            None => 0,
        }
    }

    fn read_entry(&self, pin: u8) -> u64 {
        self.pins.get(usize::from(pin)).map_or(0, |pin| pin.entry)
    }

    fn write_selected(&mut self, value: u32, out: &mut Vec<Effect>) {
        match IoRegister::at(self.select) {
            Some(IoRegister::Id) => self.id = (value >> 24) as u8 & 0xF,
            Some(IoRegister::RedirectionLow(pin)) => {
                self.write_entry(pin, u64::from(value), 0xFFFF_FFFF, out);
            }
            Some(IoRegister::RedirectionHigh(pin)) => {
                self.write_entry(pin, u64::from(value) << 32, !0xFFFF_FFFF, out);
            }
            Some(IoRegister::Version | IoRegister::Arbitration) | None => {}
        }
    }

    /// Remote IRR goes when an entry becomes edge-triggered, which is how software ends a
    /// level-triggered interrupt at an I/O APIC without an EOI register.
    fn write_entry(&mut self, index: u8, value: u64, half: u64, out: &mut Vec<Effect>) {
        let Some(pin) = self.pins.get_mut(usize::from(index)) else { return };
        let written = RedirectionEntry::WRITABLE & half;
        let entry = RedirectionEntry::from_bits(pin.entry & !written | value & written);
        pin.entry = entry.with_remote_irr(entry.remote_irr() && entry.is_level()).into_bits();
        self.sample_level(index, out);
    }

    /// The level of a pin. An edge at a masked pin is lost.
    /// [IOAPIC "I/O Redirection Table Registers"]
    pub fn set_line(&mut self, pin: u8, asserted: bool, out: &mut Vec<Effect>) {
        let Some(state) = self.pins.get_mut(usize::from(pin)) else { return };
        let is_rising = asserted && !state.is_asserted;
        state.is_asserted = asserted;
        let entry = state.entry();
        if entry.is_level() {
            self.sample_level(pin, out);
        } else if is_rising && !entry.is_masked() {
            out.push(Effect::MessageSignalled(message(entry)));
        }
    }

    /// Sends for a level-triggered pin that is asserted, unmasked and not waiting for an EOI.
    fn sample_level(&mut self, pin: u8, out: &mut Vec<Effect>) {
        let Some(state) = self.pins.get_mut(usize::from(pin)) else { return };
        let entry = state.entry();
        if entry.is_level() && state.is_asserted && !entry.is_masked() && !entry.remote_irr() {
            state.entry = entry.with_remote_irr(true).into_bits();
            out.push(Effect::MessageSignalled(message(entry)));
        }
    }

    /// A local APIC ended `vector`, or software wrote it to the EOI register: every level-triggered
    /// pin with that vector may send again, and does if it is still asserted.
    pub fn end_of_interrupt(&mut self, vector: Vector, out: &mut Vec<Effect>) {
        for index in 0..self.pin_count() {
            let pin = &mut self.pins[usize::from(index)];
            let entry = pin.entry();
            if entry.is_level() && entry.remote_irr() && entry.vector() == vector.0 {
                pin.entry = entry.with_remote_irr(false).into_bits();
                self.sample_level(index, out);
            }
        }
    }

    /// No local APIC took `refused`: a level-triggered pin that sent it is not waiting for an EOI
    /// that will never come. It sends again when its line or its entry changes.
    pub fn not_accepted(&mut self, refused: MessageSignalled) {
        for pin in &mut self.pins {
            let entry = pin.entry();
            if entry.remote_irr() && message(entry) == refused {
                pin.entry = entry.with_remote_irr(false).into_bits();
            }
        }
    }
}

/// The write that an entry makes. Bits 63:48 go to bits 19:4 of the address whatever they mean
/// there: destination, extended destination or remapping handle.
fn message(entry: RedirectionEntry) -> MessageSignalled {
    let handle = MessageAddress::from_bits(u32::from(entry.address()) << 4);
    let is_arbitrated = entry.delivery_mode() == DeliveryMode::LowestPriority;
    let address = handle
        .with_window((WINDOW_START >> 20) as u16)
        .with_destination_mode(entry.destination_mode())
        .with_is_redirectable(is_arbitrated && !handle.is_remappable());
    let data = MessageData::new()
        .with_vector(entry.vector())
        .with_delivery_mode(entry.delivery_mode())
        .with_is_asserted(true)
        .with_is_level(entry.is_level());
    MessageSignalled { address: Device(u64::from(address.into_bits())), data: data.into_bits() }
}

#[cfg(test)]
mod tests;

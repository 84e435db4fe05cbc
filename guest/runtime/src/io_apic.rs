//! The first I/O APIC, through its window, which has two halves: one processor at a time reaches
//! it, with interrupts disabled. [IOAPIC "Memory Mapped Registers for Accessing IOAPIC Registers"]

use crate::lock::Lock;
use crate::{instruction, memory};
use arch::apic::{RedirectionEntry, io_mmio};

/// Index of the lower half of pin 0's entry; each pin has two registers.
const FIRST_ENTRY: u32 = 0x10;

/// Who has it reaches the registers.
pub struct Window(());

static WINDOW: Lock<Window> = Lock::new(Window(()));

/// Does something with the registers, which nobody else and no handler comes into.
pub fn with(body: impl FnOnce(&mut Window)) {
    instruction::without_interrupts(|| WINDOW.with(body));
}

impl Window {
    /// The entry of a pin.
    pub fn entry(&mut self, pin: u8) -> RedirectionEntry {
        let (low, high) = (self.read(index(pin)), self.read(index(pin) + 1));
        RedirectionEntry::from_bits(u64::from(high) << 32 | u64::from(low))
    }

    /// Writes the entry of a pin: its destination first, so that it is there when the lower half
    /// unmasks it. An entry that is not masked meanwhile is half old.
    pub fn set_entry(&mut self, pin: u8, entry: RedirectionEntry) {
        let bits = entry.into_bits();
        self.write(index(pin) + 1, (bits >> 32) as u32);
        self.write(index(pin), bits as u32);
    }

    /// Writes the lower half of the entry of a pin alone.
    pub fn set_lower_half(&mut self, pin: u8, entry: RedirectionEntry) {
        self.write(index(pin), entry.into_bits() as u32);
    }

    fn read(&mut self, index: u32) -> u32 {
        memory::write_device(register(io_mmio::SELECT), index);
        memory::read_device(register(io_mmio::WINDOW)).unwrap_or(0)
    }

    fn write(&mut self, index: u32, value: u32) {
        memory::write_device(register(io_mmio::SELECT), index);
        memory::write_device(register(io_mmio::WINDOW), value);
    }
}

fn index(pin: u8) -> u32 {
    FIRST_ENTRY + 2 * u32::from(pin)
}

fn register(offset: u16) -> u64 {
    io_mmio::RESET_ADDRESS + u64::from(offset)
}

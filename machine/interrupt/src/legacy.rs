//! The two cascaded 8259A interrupt controllers of a PC and their edge/level registers.
//! [8259A "Functional Description"]
//!
//! DEVIATION(8259A "Edge and Level Triggered Modes"): an edge stays requested when its line falls
//! before the acknowledge, since the devices of this machine may pulse their lines.
//! DEVIATION(8259A "MCS-80/85 System"): the call-instruction mode and buffered mode do not exist.

mod chip;

pub use chip::ChipRegisters;
use chip::{CASCADE, Chip};
use serde::{Deserialize, Serialize};

/// Inputs whose trigger mode the ELCR may change; the others are edge-triggered.
const MASTER_LEVEL_CAPABLE: u8 = 0xF8;
const SLAVE_LEVEL_CAPABLE: u8 = 0xDE;

/// The 8259A pair: lines 0–7 at the master, 8–15 at the slave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PicPair {
    master: Chip,
    slave: Chip,
}

impl Default for PicPair {
    fn default() -> Self {
        Self::new()
    }
}

impl PicPair {
    /// As after power-on: software has to initialize both before they interrupt.
    pub fn new() -> Self {
        Self { master: Chip::new(MASTER_LEVEL_CAPABLE), slave: Chip::new(SLAVE_LEVEL_CAPABLE) }
    }

    /// The registers of master and slave, for reports.
    pub fn registers(&self) -> [ChipRegisters; 2] {
        [self.master.registers(), self.slave.registers()]
    }

    /// Reads port 20h, 21h, A0h, A1h, 4D0h or 4D1h; any other gives FFh.
    pub fn port_read(&mut self, port: u16) -> u8 {
        let value = match port {
            0x20 | 0x21 => self.master.read(port & 1 != 0),
            0xA0 | 0xA1 => self.slave.read(port & 1 != 0),
            0x4D0 => self.master.level_triggered(),
            0x4D1 => self.slave.level_triggered(),
            _ => 0xFF,
        };
        self.cascade();
        value
    }

    /// Writes port 20h, 21h, A0h, A1h, 4D0h or 4D1h; any other is dropped.
    pub fn port_write(&mut self, port: u16, value: u8) {
        match port {
            0x20 | 0x21 => self.master.write(port & 1 != 0, value),
            0xA0 | 0xA1 => self.slave.write(port & 1 != 0, value),
            0x4D0 => self.master.set_level_triggered(value),
            0x4D1 => self.slave.set_level_triggered(value),
            _ => {}
        }
        self.cascade();
    }

    /// The level of a line, 0–15. Line 2 is the cascade and has no other source.
    pub fn set_line(&mut self, irq: u8, asserted: bool) {
        match irq {
            CASCADE => {}
            0..8 => self.master.set_line(irq, asserted),
            8..16 => self.slave.set_line(irq - 8, asserted),
            _ => {}
        }
        self.cascade();
    }

    /// The level of INTR.
    pub fn output(&self) -> bool {
        self.master.highest().is_some()
    }

    /// The two acknowledge cycles of a processor; the vector. Without a request any more it is
    /// that of input 7 of the chip that was asked, which does not go into service.
    /// [8259A "Interrupt Sequence"]
    pub fn acknowledge(&mut self) -> u8 {
        let vector = match self.master.acknowledge() {
            Some(CASCADE) => {
                let input = self.slave.acknowledge().unwrap_or(chip::SPURIOUS);
                self.slave.vector_of(input)
            }
            Some(input) => self.master.vector_of(input),
            None => self.master.vector_of(chip::SPURIOUS),
        };
        self.cascade();
        vector
    }

    /// The slave's INTR is the master's input 2, which follows it.
    fn cascade(&mut self) {
        let asserted = self.slave.highest().is_some();
        self.master.follow(CASCADE, asserted);
    }
}

#[cfg(test)]
mod tests;

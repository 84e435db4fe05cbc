//! The guest's ports: a serial port whose lines we print, the port by which it ends, and how many
//! processors it has. All other ports read as ones.

use crate::memory::Memory;
use arch::address::GuestPhysical;
use runtime::print;

const SERIAL: u16 = 0x3F8;
const LINE_CONTROL: u16 = SERIAL + 3;
const SERIAL_LINE_STATUS: u16 = SERIAL + 5;
const TRANSMITTER_EMPTY: u32 = 0x60;
/// Takes the address of a text: its length in four bytes, then the bytes.
const TEXT: u16 = 0xE8;
const DEBUG_EXIT: u16 = 0xF4;
const FW_CFG_SELECTOR: u16 = 0x510;
const FW_CFG_DATA: u16 = 0x511;
const FW_CFG_SIGNATURE: u16 = 0;
const FW_CFG_PROCESSORS: u16 = 5;
const LONGEST_LINE: usize = 512;

/// What the ports' devices hold.
pub struct Ports {
    /// What lines are printed with: whether the run is an accelerated one.
    feature: &'static str,
    processors: u16,
    line: [u8; LONGEST_LINE],
    length: usize,
    is_divisor_visible: bool,
    selected: u16,
    position: usize,
}

impl Ports {
    pub fn new(feature: &'static str, processors: usize) -> Self {
        Self {
            feature,
            processors: processors as u16,
            line: [0; LONGEST_LINE],
            length: 0,
            is_divisor_visible: false,
            selected: 0,
            position: 0,
        }
    }

    /// What an IN reads.
    pub fn read(&mut self, port: u16) -> u32 {
        match port {
            SERIAL_LINE_STATUS => TRANSMITTER_EMPTY,
            FW_CFG_DATA => self.read_configuration(),
            _ => u32::MAX,
        }
    }

    /// What an OUT does; the status, if it ends the machine.
    pub fn write(&mut self, memory: Memory, port: u16, value: u32) -> Option<u32> {
        match port {
            SERIAL => self.transmit(value as u8),
            // The line control register's top bit shows the divisor where the data register is.
            LINE_CONTROL => self.is_divisor_visible = value & 0x80 != 0,
            FW_CFG_SELECTOR => (self.selected, self.position) = (value as u16, 0),
            TEXT => self.transmit_text(memory, value),
            DEBUG_EXIT => return Some(value),
            _ => {}
        }
        None
    }

    fn transmit(&mut self, byte: u8) {
        match byte {
            _ if self.is_divisor_visible => {}
            b'\r' => {}
            b'\n' => self.print(),
            _ => {
                if let Some(place) = self.line.get_mut(self.length) {
                    *place = byte;
                    self.length += 1;
                }
            }
        }
    }

    /// A text that is not all in the guest's RAM, or longer than a line, is not printed.
    fn transmit_text(&mut self, memory: Memory, address: u32) {
        let (start, mut length) = (u64::from(address), [0; 4]);
        if !memory.read(GuestPhysical(start), &mut length) {
            return;
        }
        let length = u32::from_le_bytes(length) as usize;
        let mut text = [0; LONGEST_LINE + 1];
        if length <= text.len() && memory.read(GuestPhysical(start + 4), &mut text[..length]) {
            text[..length].iter().for_each(|byte| self.transmit(*byte));
        }
    }

    /// The guests of this project print JSON; what another prints becomes a string.
    fn print(&mut self) {
        let text = core::str::from_utf8(&self.line[..self.length]).unwrap_or("");
        let feature = self.feature;
        if text.starts_with('{') && text.ends_with('}') {
            print!("{{\"record\":\"guest\",\"feature\":\"{feature}\",\"output\":{text}}}");
        } else {
            let text = text.escape_default();
            print!("{{\"record\":\"guest\",\"feature\":\"{feature}\",\"output\":\"{text}\"}}");
        }
        self.length = 0;
    }

    fn read_configuration(&mut self) -> u32 {
        let count = self.processors.to_le_bytes();
        let item: &[u8] = match self.selected {
            FW_CFG_SIGNATURE => b"QEMU",
            FW_CFG_PROCESSORS => &count,
            _ => &[],
        };
        let byte = item.get(self.position).copied().unwrap_or(0);
        self.position += 1;
        u32::from(byte)
    }
}

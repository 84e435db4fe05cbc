//! The guest's ports: a serial port whose lines we print, the port by which it ends, and how many
//! processors it has. All other ports read as ones.

use crate::{machine, memory};
use arch::address::GuestPhysical;
use runtime::lock::Lock;
use runtime::print;

const SERIAL: u16 = 0x3F8;
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

struct Ports {
    line: [u8; LONGEST_LINE],
    length: usize,
    is_divisor_visible: bool,
    selected: u16,
    position: usize,
}

static PORTS: Lock<Ports> = Lock::new(Ports {
    line: [0; LONGEST_LINE],
    length: 0,
    is_divisor_visible: false,
    selected: 0,
    position: 0,
});

/// What an IN reads.
pub fn read(port: u16) -> u32 {
    match port {
        SERIAL_LINE_STATUS => TRANSMITTER_EMPTY,
        FW_CFG_DATA => PORTS.with(Ports::read_configuration),
        _ => u32::MAX,
    }
}

/// What an OUT does.
pub fn write(port: u16, value: u32) {
    match port {
        SERIAL => PORTS.with(|ports| ports.transmit(value as u8)),
        // The line control register's top bit shows the divisor where the data register is.
        0x3FB => PORTS.with(|ports| ports.is_divisor_visible = value & 0x80 != 0),
        FW_CFG_SELECTOR => {
            PORTS.with(|ports| (ports.selected, ports.position) = (value as u16, 0));
        }
        TEXT => PORTS.with(|ports| ports.transmit_text(value)),
        DEBUG_EXIT => machine::end(value),
        _ => {}
    }
}

impl Ports {
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
    fn transmit_text(&mut self, address: u32) {
        let (start, mut length) = (u64::from(address), [0; 4]);
        if !memory::read(GuestPhysical(start), &mut length) {
            return;
        }
        let length = u32::from_le_bytes(length) as usize;
        let mut text = [0; LONGEST_LINE + 1];
        if length <= text.len() && memory::read(GuestPhysical(start + 4), &mut text[..length]) {
            text[..length].iter().for_each(|byte| self.transmit(*byte));
        }
    }

    /// The guests of this project print JSON; what another prints becomes a string.
    fn print(&mut self) {
        let text = core::str::from_utf8(&self.line[..self.length]).unwrap_or("");
        let avic = machine::acceleration().name();
        if text.starts_with('{') && text.ends_with('}') {
            print!("{{\"record\":\"guest\",\"feature\":\"{avic}\",\"output\":{text}}}");
        } else {
            let text = text.escape_default();
            print!("{{\"record\":\"guest\",\"feature\":\"{avic}\",\"output\":\"{text}\"}}");
        }
        self.length = 0;
    }

    fn read_configuration(&mut self) -> u32 {
        let count = (machine::vcpu_count() as u16).to_le_bytes();
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

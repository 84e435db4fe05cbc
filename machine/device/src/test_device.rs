//! Devices that exist for test programs: the exit port, the debug console, the shutdown port, ports
//! that echo, ports that drive interrupt lines, and RAM on the device bus.

use crate::lanes;
use crate::map;
use arch::address::Device;
use bus::{Context, Effect, Initiator};
use serde::{Deserialize, Serialize};

const SHUTDOWN_WORD: &[u8] = b"Shutdown";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TestDevice {
    /// Echo and interrupt ports and RAM answer; the exit ports always do.
    is_present: bool,
    echo: [u8; 4],
    /// How many characters of "Shutdown" have come in a row.
    shutdown_matched: u8,
    ram: Vec<u8>,
    /// The last power-on self-test code, port 80h.
    post_code: u8,
}

impl TestDevice {
    pub fn new(is_present: bool) -> Self {
        let ram = if is_present { vec![0; map::TEST_RAM_SIZE as usize] } else { Vec::new() };
        Self { is_present, echo: [0; 4], shutdown_matched: 0, ram, post_code: 0 }
    }

    pub fn is_present(&self) -> bool {
        self.is_present
    }

    pub fn post_code(&self) -> u8 {
        self.post_code
    }

    pub fn write_post_code(&mut self, value: u8) {
        self.post_code = value;
    }

    /// The run ends with status `value * 2 + 1`.
    pub fn exit(&mut self, cx: &mut Context, value: u32) {
        cx.effect(initiator(), Effect::DebugExit { value });
    }

    /// Powers off once the characters of "Shutdown" have come in a row.
    pub fn write_shutdown(&mut self, cx: &mut Context, value: u8) {
        let expected = SHUTDOWN_WORD[usize::from(self.shutdown_matched) % SHUTDOWN_WORD.len()];
        if value == expected {
            self.shutdown_matched += 1;
        } else {
            self.shutdown_matched = u8::from(value == SHUTDOWN_WORD[0]);
        }
        if usize::from(self.shutdown_matched) == SHUTDOWN_WORD.len() {
            self.shutdown_matched = 0;
            cx.effect(initiator(), Effect::PowerOff);
        }
    }

    pub fn read_echo(&self, offset: u64, size: u8) -> u32 {
        lanes::load(&self.echo, offset, size) as u32
    }

    pub fn write_echo(&mut self, offset: u64, size: u8, value: u32) {
        lanes::store(&mut self.echo, offset, size, value.into());
    }

    /// Prints a byte, without a serial port to be set up.
    pub fn print(&mut self, cx: &mut Context, byte: u8) {
        cx.effect(initiator(), Effect::Console { port: 0, byte });
    }

    /// Prints a text that lies in memory: one access for all of it, where the console is not what
    /// is tested. An address that is not RAM and a length beyond the limit print nothing.
    pub fn write_text(&mut self, cx: &mut Context, address: u32) {
        let requester = map::ISA_BRIDGE.requester();
        let mut length = [0; 4];
        if cx.memory.read(requester, Device(address.into()), &mut length).is_err() {
            return;
        }
        let length = u32::from_le_bytes(length);
        let mut text = vec![0; length.min(map::TEST_TEXT_LIMIT) as usize];
        let start = Device(u64::from(address) + 4);
        if length > map::TEST_TEXT_LIMIT || cx.memory.read(requester, start, &mut text).is_err() {
            return;
        }
        for byte in text {
            cx.effect(initiator(), Effect::Console { port: 0, byte });
        }
    }

    pub fn write_line(&mut self, cx: &mut Context, gsi: u8, value: u32) {
        cx.effect(initiator(), Effect::Line { gsi, asserted: value != 0 });
    }

    pub fn read_ram(&self, offset: u64, size: u8) -> u64 {
        lanes::load(&self.ram, offset, size)
    }

    pub fn write_ram(&mut self, offset: u64, size: u8, value: u64) {
        lanes::store(&mut self.ram, offset, size, value);
    }
}

fn initiator() -> Initiator {
    Initiator::Device(map::ISA_BRIDGE.requester())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Bench;

    #[test]
    fn only_the_whole_word_shuts_down() {
        for (word, expected) in [
            ("Shutdown", 1),
            ("ShutShutdown", 1),
            ("Shutdow", 0),
            ("SShutdown", 1),
            ("shutdown", 0),
        ] {
            let mut bench = Bench::new();
            let mut device = TestDevice::new(true);
            for byte in word.bytes() {
                device.write_shutdown(&mut bench.context(), byte);
            }
            assert_eq!(bench.effects(), vec![Effect::PowerOff; expected], "{word}");
        }
    }

    #[test]
    fn echo_keeps_bytes_by_port() {
        let mut device = TestDevice::new(true);
        device.write_echo(0, 4, 0x4433_2211);
        device.write_echo(1, 2, 0x9988);
        assert_eq!(device.read_echo(0, 4), 0x4499_8811);
        assert_eq!(device.read_echo(3, 1), 0x44);
    }

    #[test]
    fn ram_keeps_unaligned_values_and_ends_without_wrapping() {
        let mut device = TestDevice::new(true);
        device.write_ram(0xFFD, 8, 0x8877_6655_4433_2211);
        assert_eq!(device.read_ram(0xFFF, 4), 0x6655_4433);
        device.write_ram(map::TEST_RAM_SIZE - 2, 8, u64::MAX);
        assert_eq!(device.read_ram(map::TEST_RAM_SIZE - 2, 8), 0xFFFF);
        assert_eq!(device.read_ram(0, 1), 0);
    }
}

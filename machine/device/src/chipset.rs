//! All devices of a board but the interrupt controllers, behind one decoder of ports and one of
//! memory addresses.

use crate::firmware_configuration::FirmwareConfiguration;
use crate::flash::Flash;
use crate::hpet::Hpet;
use crate::keyboard::KeyboardController;
use crate::lanes;
use crate::map;
use crate::onboard::Onboard;
use crate::pit::Pit;
use crate::power::Power;
use crate::q35;
use crate::registry::{self, Bus, Request};
use crate::request::Places;
use crate::rtc::{Date, RealTimeClock};
use crate::serial::Serial;
use crate::test_device::TestDevice;
use crate::test_function;
use arch::address::SystemPhysical;
use arch::time::Picoseconds;
use bus::Context;
use serde::{Deserialize, Serialize};

mod attached;

/// Virtio devices that find a place: device numbers 1 to 13h.
pub const MAXIMUM_VIRTIO_DEVICES: usize = Places::VIRTIO.count();
/// Functions as servers have them that find a place: device numbers 15h to 1Ch.
pub const MAXIMUM_SERVER_FUNCTIONS: usize = Places::SERVER.count();

/// What a board carries.
#[derive(Clone, Debug)]
pub struct ChipsetConfiguration {
    /// Logical processors, as the firmware configuration device tells them.
    pub cpus: u16,
    /// Bytes of RAM, which NVRAM and the firmware configuration device state.
    pub memory_size: u64,
    /// 0 to 4.
    pub serial_ports: u8,
    /// What the real-time clock shows at power-on.
    pub start: Date,
    /// Whether the ports and RAM for test programs and the PCI test function are there.
    pub has_test_devices: bool,
    /// Functions on the PCI bus beside the bridges. They stand there in the order of the registry's
    /// rows, and those of a row in this order, as far as there are places.
    pub functions: Vec<Request>,
}

impl Default for ChipsetConfiguration {
    fn default() -> Self {
        Self {
            cpus: 1,
            memory_size: 512 << 20,
            serial_ports: 2,
            start: Date::default(),
            has_test_devices: true,
            functions: Vec::new(),
        }
    }
}

/// The devices, and the decoders in front of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Chipset {
    pit: Pit,
    rtc: RealTimeClock,
    hpet: Hpet,
    /// ACPI fixed hardware, and the power button.
    pub power: Power,
    keyboard: KeyboardController,
    /// COM1 and on, as many as were asked for.
    pub serial: Vec<Serial>,
    /// fw_cfg, which takes further items and files.
    pub firmware_configuration: FirmwareConfiguration,
    test: TestDevice,
    /// PCI bus 0; its functions claim the memory and port ranges that their BARs say.
    pub pci: Bus,
    /// Firmware's variables, on a board with flash.
    flash: Option<Flash>,
    /// Where the window to configuration space is, while it is decoded.
    window: Option<u64>,
}

impl Chipset {
    /// The devices as they are after power-on.
    pub fn new(configuration: &ChipsetConfiguration) -> Self {
        let ports = configuration.serial_ports.min(map::SERIAL.len() as u8);
        let mut requests: Vec<Request> = Onboard::ALWAYS.map(Request::Onboard).to_vec();
        if configuration.has_test_devices {
            requests.push(test_function::Request.into());
        }
        requests.extend(configuration.functions.iter().cloned());
        let mut pci = Bus::default();
        registry::populate(&mut pci, &requests);
        Self {
            pit: Pit::default(),
            rtc: RealTimeClock::new(configuration.start, configuration.memory_size),
            hpet: Hpet::default(),
            power: Power::default(),
            keyboard: KeyboardController::default(),
            serial: (0..ports).map(Serial::new).collect(),
            firmware_configuration: FirmwareConfiguration::new(
                configuration.cpus,
                configuration.memory_size,
            ),
            test: TestDevice::new(configuration.has_test_devices),
            pci,
            flash: None,
            window: Some(map::ECAM.0),
        }
    }

    /// Makes this the board that UEFI firmware knows, with a flash for its variables and `low`
    /// bytes of RAM below 4 GiB. [`q35`]
    pub fn carry_flash(&mut self, flash: Flash, low: u64) {
        self.flash = Some(flash);
        self.rtc.describe_low_memory(low);
        self.power.take_for_s5(map::FIRMWARE_SLEEP_TYPE_S5);
        q35::identify(&mut self.pci);
        self.follow_window();
    }

    /// What firmware keeps its variables in, on a board that has it.
    pub fn flash(&self) -> Option<&Flash> {
        self.flash.as_ref()
    }

    /// The window is where the host bridge says, and so does firmware's table of it.
    fn follow_window(&mut self) {
        if self.flash.is_none() {
            return;
        }
        self.window = q35::window(&self.pci);
        if let Some(base) = self.window {
            self.firmware_configuration.tell_window(base);
        }
    }

    fn window_offset(&self, address: SystemPhysical) -> Option<u64> {
        address.0.checked_sub(self.window?).filter(|offset| *offset < map::ECAM_SIZE)
    }

    /// Reads 1, 2 or 4 bytes from a port; unclaimed ones give all ones.
    pub fn port_in(&mut self, cx: &mut Context, port: u16, size: u8) -> u32 {
        let size = port_size(size);
        match port {
            map::PM1A_EVENT..map::PM_TIMER_END | map::GPE0..map::GPE0_END => {
                self.power.read(cx, port, size)
            }
            map::RESET_CONTROL if size == 1 => self.power.read_reset_control().into(),
            map::PCI_CONFIGURATION_ADDRESS..map::PCI_CONFIGURATION_END => {
                self.pci.read_mechanism(port, size)
            }
            map::FIRMWARE_CONFIGURATION_DMA..map::FIRMWARE_CONFIGURATION_END => {
                let offset = u64::from(port - map::FIRMWARE_CONFIGURATION_DMA);
                self.firmware_configuration.read_dma(offset, size)
            }
            map::TEST_ECHO..map::TEST_FLUSH if self.test.is_present() => {
                self.test.read_echo(u64::from(port - map::TEST_ECHO), size)
            }
            map::DEBUG_EXIT..map::DEBUG_EXIT_END => 0,
            map::FIRMWARE_PCI_IO_START..
                if let Some(value) = self.pci.read(cx, port.into(), false, size) =>
            {
                value as u32
            }
            _ => (0..size).fold(0, |value, i| {
                let byte = self.byte_in(cx, port.wrapping_add(i.into()));
                value | u32::from(byte) << (i * 8)
            }),
        }
    }

    /// Writes 1, 2 or 4 bytes to a port.
    pub fn port_out(&mut self, cx: &mut Context, port: u16, size: u8, value: u32) {
        let size = port_size(size);
        let value = value & lanes::all_ones(size) as u32;
        match port {
            map::PM1A_EVENT..map::PM_TIMER_END | map::GPE0..map::GPE0_END => {
                self.power.write(cx, port, size, value);
            }
            map::RESET_CONTROL if size == 1 => self.power.write_reset_control(cx, value as u8),
            map::PCI_CONFIGURATION_ADDRESS..map::PCI_CONFIGURATION_END => {
                self.pci.write_mechanism(cx, port, size, value);
                self.follow_window();
            }
            map::FIRMWARE_CONFIGURATION if size == 2 => {
                self.firmware_configuration.select(value as u16);
            }
            map::FIRMWARE_CONFIGURATION_DMA..map::FIRMWARE_CONFIGURATION_END => {
                let offset = u64::from(port - map::FIRMWARE_CONFIGURATION_DMA);
                self.firmware_configuration.write_dma(cx, offset, size, value);
            }
            map::TEST_ECHO..map::TEST_FLUSH if self.test.is_present() => {
                self.test.write_echo(u64::from(port - map::TEST_ECHO), size, value);
            }
            map::TEST_TEXT if size == 4 && self.test.is_present() => {
                self.test.write_text(cx, value)
            }
            map::DEBUG_EXIT..map::DEBUG_EXIT_END => self.test.exit(cx, value),
            map::TEST_LINES..map::TEST_LINES_END if self.test.is_present() => {
                self.test.write_line(cx, (port - map::TEST_LINES) as u8, value);
            }
            map::FIRMWARE_PCI_IO_START..
                if self.pci.write(cx, port.into(), false, size, value.into()) => {}
            _ => {
                for i in 0..size {
                    let byte = (value >> (i * 8)) as u8;
                    self.byte_out(cx, port.wrapping_add(i.into()), byte);
                }
            }
        }
    }

    /// Ports of devices with eight data lines: wider accesses reach successive ports.
    fn byte_in(&mut self, cx: &mut Context, port: u16) -> u8 {
        if let Some((index, register)) = self.serial_register(port) {
            return self.serial[index].read(cx, register);
        }
        match port {
            map::PIT..map::PIT_END => self.pit.read(cx, port - map::PIT),
            map::KEYBOARD_DATA => self.keyboard.read_data(cx),
            map::SYSTEM_CONTROL_B => self.pit.read_system_control(cx),
            map::KEYBOARD_COMMAND => self.keyboard.read_status(),
            map::RTC_DATA => self.rtc.read_data(cx),
            map::POST_CODE => self.test.post_code(),
            map::DEBUG_CONSOLE => map::DEBUG_CONSOLE as u8,
            map::SYSTEM_CONTROL_A => self.keyboard.read_system_control(),
            map::FIRMWARE_CONFIGURATION_DATA => self.firmware_configuration.read_data(),
            _ => 0xFF,
        }
    }

    fn byte_out(&mut self, cx: &mut Context, port: u16, value: u8) {
        if let Some((index, register)) = self.serial_register(port) {
            return self.serial[index].write(cx, register, value);
        }
        match port {
            map::PIT..map::PIT_END => self.pit.write(cx, port - map::PIT, value),
            map::KEYBOARD_DATA => self.keyboard.write_data(cx, value),
            map::SYSTEM_CONTROL_B => self.pit.write_system_control(cx, value),
            map::KEYBOARD_COMMAND => self.keyboard.write_command(cx, value),
            map::RTC_INDEX => self.rtc.write_index(value),
            map::RTC_DATA => self.rtc.write_data(cx, value),
            map::POST_CODE => self.test.write_post_code(value),
            map::DEBUG_CONSOLE => self.test.print(cx, value),
            map::SYSTEM_CONTROL_A => self.keyboard.write_system_control(cx, value),
            map::SHUTDOWN => self.test.write_shutdown(cx, value),
            _ => {}
        }
    }

    fn serial_register(&self, port: u16) -> Option<(usize, u8)> {
        let index = map::SERIAL.iter().position(|base| port & !7 == *base)?;
        (index < self.serial.len()).then_some((index, (port & 7) as u8))
    }

    /// Reads 1, 2, 4 or 8 bytes of device memory; unclaimed addresses give all ones.
    pub fn read(&mut self, cx: &mut Context, address: SystemPhysical, size: u8) -> u64 {
        if let Some(offset) = self.window_offset(address) {
            return self.pci.read_window(offset, size);
        }
        match address.0 {
            HPET..HPET_END => self.hpet.read(cx, address.0 - HPET, size),
            TEST_RAM..TEST_RAM_END if self.test.is_present() => {
                self.test.read_ram(address.0 - TEST_RAM, size)
            }
            _ => match &self.flash {
                Some(flash) if let Some(offset) = flash.offset(address) => flash.read(offset, size),
                _ => self.pci.read(cx, address.0, true, size).unwrap_or(lanes::all_ones(size)),
            },
        }
    }

    /// Writes 1, 2, 4 or 8 bytes of device memory; unclaimed addresses take and drop them.
    pub fn write(&mut self, cx: &mut Context, address: SystemPhysical, size: u8, value: u64) {
        if let Some(offset) = self.window_offset(address) {
            self.pci.write_window(cx, offset, size, value);
            return self.follow_window();
        }
        match address.0 {
            HPET..HPET_END => self.write_hpet(cx, address.0 - HPET, size, value),
            TEST_RAM..TEST_RAM_END if self.test.is_present() => {
                self.test.write_ram(address.0 - TEST_RAM, size, value);
            }
            _ => match &mut self.flash {
                Some(flash) if let Some(offset) = flash.offset(address) => {
                    flash.write(offset, size, value);
                }
                _ => {
                    self.pci.write(cx, address.0, true, size, value);
                }
            },
        }
    }

    fn write_hpet(&mut self, cx: &mut Context, offset: u64, size: u8, value: u64) {
        let before = self.hpet.replaces_legacy();
        self.hpet.write(cx, offset, size, value);
        let after = self.hpet.replaces_legacy();
        if before != after {
            self.pit.set_line_connected(cx, !after);
            self.rtc.set_line_connected(cx, !after);
        }
    }

    /// The first moment at which [`Chipset::advance`] has something to do.
    pub fn next_deadline(&self) -> Option<Picoseconds> {
        let serial = self.serial.iter().filter_map(Serial::next_deadline).min();
        [
            self.pit.next_deadline(),
            self.rtc.next_deadline(),
            self.hpet.next_deadline(),
            self.power.next_deadline(),
            serial,
            self.pci.next_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Does all that is due by now.
    pub fn advance(&mut self, cx: &mut Context) {
        let now = cx.now;
        let is_due = |deadline: Option<Picoseconds>| deadline.is_some_and(|at| at <= now);
        if is_due(self.pit.next_deadline()) {
            self.pit.advance(cx);
        }
        if is_due(self.rtc.next_deadline()) {
            self.rtc.advance(cx);
        }
        if is_due(self.hpet.next_deadline()) {
            self.hpet.advance(cx);
        }
        if is_due(self.power.next_deadline()) {
            self.power.advance(cx);
        }
        for serial in &mut self.serial {
            serial.advance(cx);
        }
        self.pci.advance(cx);
    }

    /// Characters typed at the console of a serial port; gives how many it took.
    pub fn receive(&mut self, cx: &mut Context, port: u8, bytes: &[u8]) -> usize {
        match self.serial.get_mut(usize::from(port)) {
            Some(serial) => serial.receive(cx, bytes),
            None => bytes.len(),
        }
    }
}

const HPET: u64 = map::HPET.0;
const HPET_END: u64 = HPET + map::HPET_SIZE;
const TEST_RAM: u64 = map::TEST_RAM.0;
const TEST_RAM_END: u64 = TEST_RAM + map::TEST_RAM_SIZE;

/// Processors access ports by one, two or four bytes; anything else counts as four.
const fn port_size(size: u8) -> u8 {
    if matches!(size, 1 | 2) { size } else { 4 }
}

#[cfg(test)]
mod tests;

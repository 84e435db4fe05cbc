//! A function that interrupts at a programmed rate, with one write to memory before each
//! interrupt: what it takes for a device's interrupt to arrive shows without any driver stack.
//!
//! Its registers are dwords in the first region, the MSI-X table is in the second. It has no manual
//! but this: vendor 1B36h, device 00F2h.

use crate::map;
use crate::pci::{Attachment, Bar, Configuration, Function, Identity, Msix, PciDevice, Room};
use crate::request::{Name, PciRequest, Places};
use arch::pci::{Command, FunctionAddress, class};
use arch::time::Picoseconds;
use serde::{Deserialize, Serialize};

/// Vendor and device identifier.
pub const IDENTITY: (u16, u16) = (0x1B36, 0x00F2);
/// The region with the registers.
pub const REGISTERS_BAR: usize = 0;
/// The region with the MSI-X table.
pub const TABLE_BAR: usize = 1;
/// Bytes of the registers' region: a page, so that a hypervisor can map it into a guest.
pub const REGISTERS_SIZE: u32 = 4096;
/// Entries of the MSI-X table.
pub const VECTORS: u16 = 4;
/// Pulses are no closer than this, whatever the period.
pub const LEAST_PERIOD_NS: u32 = 100;
/// Bytes written to memory before each interrupt: the number of the pulse from 1 on and the
/// nanoseconds of [`register::TIME`], eight bytes each.
pub const WRITE_SIZE: usize = 16;

/// Offsets of the registers.
pub mod register {
    /// Bit 0: pulses are sent, the first a period from now. It clears itself behind the last.
    pub const CONTROL: u64 = 0x00;
    /// Nanoseconds between two pulses.
    pub const PERIOD_NS: u64 = 0x04;
    /// Pulses to send before it stops; 0 is without end.
    pub const COUNT: u64 = 0x08;
    /// Pulses since CONTROL was last set; read-only.
    pub const SENT: u64 = 0x0C;
    /// Where the write before each interrupt goes: low half.
    pub const ADDRESS: u64 = 0x10;
    /// Its high half.
    pub const ADDRESS_HIGH: u64 = 0x14;
    /// Vectors that take turns, 1 to 4.
    pub const VECTORS: u64 = 0x18;
    /// Pulses whose write was refused, and whose interrupt was not sent; read-only.
    pub const REFUSED: u64 = 0x1C;
    /// Nanoseconds since power-on: low half; read-only.
    pub const TIME: u64 = 0x20;
    /// Its high half.
    pub const TIME_HIGH: u64 = 0x24;
}

/// The function's registers, and when it next sends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pulse {
    period_ns: u32,
    count: u32,
    sent: u32,
    refused: u32,
    address: u64,
    vectors: u16,
    next: Option<Picoseconds>,
}

impl Default for Pulse {
    fn default() -> Self {
        Self {
            period_ns: 1_000_000,
            count: 0,
            sent: 0,
            refused: 0,
            address: 0,
            vectors: 1,
            next: None,
        }
    }
}

/// The request for one.
#[derive(Clone, Copy, Debug)]
pub struct Request;

impl PciRequest for Request {
    type Device = Pulse;

    const NAMES: &'static [Name<Self>] = &[Name { name: "pulse", takes: "", ask: |_| Ok(Self) }];

    fn places(&self) -> Places {
        Places::At(map::PULSE)
    }

    fn functions(
        &self,
        _number: u8,
        at: &[FunctionAddress],
        room: &mut Room,
    ) -> Vec<Function<Pulse>> {
        vec![Pulse::default().function(at[0], room)]
    }

    fn digest(&self) -> String {
        "pulse".to_owned()
    }
}

impl PciDevice for Pulse {
    fn read(&mut self, port: &mut Attachment, _: usize, offset: u64, _: u8) -> u32 {
        let time = port.now().0 / 1000;
        match offset {
            register::CONTROL => self.next.is_some().into(),
            register::PERIOD_NS => self.period_ns,
            register::COUNT => self.count,
            register::SENT => self.sent,
            register::ADDRESS => self.address as u32,
            register::ADDRESS_HIGH => (self.address >> 32) as u32,
            register::VECTORS => self.vectors.into(),
            register::REFUSED => self.refused,
            register::TIME => time as u32,
            register::TIME_HIGH => (time >> 32) as u32,
            _ => 0,
        }
    }

    /// A register whole: narrower writes are zero-extended.
    fn write(&mut self, port: &mut Attachment, _: usize, offset: u64, _: u8, value: u32) {
        let now = port.now();
        match offset {
            register::CONTROL => {
                let runs = value & 1 != 0;
                if runs && self.next.is_none() {
                    (self.sent, self.refused) = (0, 0);
                }
                self.next = runs.then(|| self.next.unwrap_or(now.saturating_add(self.period())));
            }
            register::PERIOD_NS => self.period_ns = value.max(LEAST_PERIOD_NS),
            register::COUNT => self.count = value,
            register::ADDRESS => self.address = self.address >> 32 << 32 | u64::from(value),
            register::ADDRESS_HIGH => {
                self.address = u64::from(value) << 32 | self.address & 0xFFFF_FFFF;
            }
            register::VECTORS => self.vectors = value.clamp(1, VECTORS.into()) as u16,
            _ => {}
        }
    }

    fn next_deadline(&self) -> Option<Picoseconds> {
        self.next
    }

    /// Sends one pulse if it is due: the write first, the interrupt behind it.
    fn advance(&mut self, port: &mut Attachment) {
        let Some(due) = self.next.filter(|at| *at <= port.now()) else { return };
        self.sent = self.sent.wrapping_add(1);
        let is_last = self.count != 0 && self.sent >= self.count;
        self.next = (!is_last).then(|| due.saturating_add(self.period()).max(port.now()));
        let mut bytes = [0; WRITE_SIZE];
        bytes[..8].copy_from_slice(&u64::from(self.sent).to_le_bytes());
        bytes[8..].copy_from_slice(&(port.now().0 / 1000).to_le_bytes());
        match port.write(self.address, &bytes) {
            Ok(()) => {
                port.signal_msix((self.sent.wrapping_sub(1) % u32::from(self.vectors)) as u16)
            }
            Err(_) => self.refused = self.refused.wrapping_add(1),
        }
    }
}

impl Pulse {
    /// The function at a place.
    fn function(self, address: FunctionAddress, room: &mut Room) -> Function<Self> {
        let (vendor, device) = IDENTITY;
        let class = class::UNDEFINED;
        let mut configuration =
            Configuration::new(Identity { vendor, device, class, ..Identity::default() });
        let registers = Bar::Memory32 { size: REGISTERS_SIZE };
        let table = Bar::Memory32 { size: Msix::region_size(VECTORS) };
        configuration.set_bar(REGISTERS_BAR, registers, room.allocate(registers));
        configuration.set_bar(TABLE_BAR, table, room.allocate(table));
        configuration.set_command(Command::MEMORY_SPACE);
        let msix = Msix::add(&mut configuration, VECTORS, TABLE_BAR as u8);
        Function::new(address, configuration, self).with_msix(msix, TABLE_BAR)
    }

    const fn period(&self) -> Picoseconds {
        Picoseconds::from_nanoseconds(self.period_ns as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Bench;
    use crate::pci::PciBus;
    use arch::msi::MessageSignalled;
    use bus::Effect;

    const PLACE: FunctionAddress = FunctionAddress::new(0, 3, 0);

    /// A function that is a bus master, with vector n as data 40h + n.
    fn bus(bench: &mut Bench) -> PciBus<Pulse> {
        let mut pci = PciBus::default();
        assert!(pci.plug(|room| Pulse::default().function(PLACE, room)));
        let cx = &mut bench.context();
        pci.write_configuration(cx, PLACE, 4, 2, 6);
        pci.write_configuration(cx, PLACE, 0x42, 2, 0x8000);
        let table = pci.function(PLACE).unwrap().configuration.mapped(TABLE_BAR).unwrap();
        for vector in 0..u64::from(VECTORS) {
            for (offset, value) in [(0, 0xFEE0_0000), (4, 0), (8, 0x40 + vector), (12, 0)] {
                assert!(pci.write(cx, table + vector * 16 + offset, true, 4, value));
            }
        }
        pci
    }

    fn write(pci: &mut PciBus<Pulse>, bench: &mut Bench, offset: u64, value: u64) {
        let base = pci.function(PLACE).unwrap().configuration.mapped(REGISTERS_BAR).unwrap();
        assert!(pci.write(&mut bench.context(), base + offset, true, 4, value));
    }

    fn read(pci: &mut PciBus<Pulse>, bench: &mut Bench, offset: u64) -> u64 {
        let base = pci.function(PLACE).unwrap().configuration.mapped(REGISTERS_BAR).unwrap();
        pci.read(&mut bench.context(), base + offset, true, 4).unwrap()
    }

    fn data(effects: &[Effect]) -> Vec<u32> {
        let message = |effect: &Effect| match effect {
            Effect::MessageSignalled(MessageSignalled { data, .. }) => *data,
            other => panic!("{other:?}"),
        };
        effects.iter().map(message).collect()
    }

    #[test]
    fn each_pulse_writes_and_then_interrupts_until_the_count_is_reached() {
        let mut bench = Bench::new();
        let mut pci = bus(&mut bench);
        for (offset, value) in [
            (register::PERIOD_NS, 500),
            (register::COUNT, 3),
            (register::ADDRESS, 0x2000),
            (register::VECTORS, 2),
            (register::CONTROL, 1),
        ] {
            write(&mut pci, &mut bench, offset, value);
        }
        let start = bench.now;
        let mut times = Vec::new();
        while let Some(at) = pci.next_deadline() {
            bench.now = at;
            pci.advance(&mut bench.context());
            times.push((at.0 - start.0) / 1000);
        }
        assert_eq!(times, [500, 1000, 1500]);
        assert_eq!(data(&bench.effects()), [0x40, 0x41, 0x40]);
        let at = arch::address::SystemPhysical(0x2000);
        assert_eq!(bench.memory.read_u64(at), Ok(3));
        assert_eq!(bench.memory.read_u64(at.offset(8)), Ok(bench.now.0 / 1000));
        assert_eq!(read(&mut pci, &mut bench, register::SENT), 3);
        assert_eq!(read(&mut pci, &mut bench, register::CONTROL), 0);
    }

    #[test]
    fn a_refused_write_has_no_interrupt() {
        let mut bench = Bench::new();
        let mut pci = bus(&mut bench);
        write(&mut pci, &mut bench, register::ADDRESS_HIGH, 0xFF);
        write(&mut pci, &mut bench, register::COUNT, 1);
        write(&mut pci, &mut bench, register::CONTROL, 1);
        bench.now = pci.next_deadline().unwrap();
        pci.advance(&mut bench.context());
        assert_eq!(read(&mut pci, &mut bench, register::REFUSED), 1);
        assert!(bench.effects().is_empty());
    }

    #[test]
    fn periods_have_a_least_length_and_stopping_stops() {
        let mut bench = Bench::new();
        let mut pci = bus(&mut bench);
        write(&mut pci, &mut bench, register::PERIOD_NS, 0);
        assert_eq!(read(&mut pci, &mut bench, register::PERIOD_NS), LEAST_PERIOD_NS.into());
        write(&mut pci, &mut bench, register::CONTROL, 1);
        assert!(pci.next_deadline().is_some());
        write(&mut pci, &mut bench, register::CONTROL, 0);
        assert_eq!(pci.next_deadline(), None);
    }
}

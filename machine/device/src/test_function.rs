//! A function for measuring accesses to memory and port regions: a header that describes the
//! selected test, and an offset whose writes are counted. [PCITEST "pci-testdev"]

use crate::lanes;
use crate::map;
use crate::pci::{Attachment, Bar, Configuration, Function, Identity, PciDevice, Room};
use crate::request::{Name, PciRequest, Places};
use arch::pci::{Command, FunctionAddress, class};
use serde::{Deserialize, Serialize};

/// Vendor and device identifier. [PCITEST "pci-testdev"]
const IDENTITY: (u16, u16) = (0x1B36, 0x0005);

/// The base address register of the memory region.
pub const MEMORY_BAR: usize = 0;
/// The base address register of the port region.
pub const PORT_BAR: usize = 1;
/// Bytes of the memory region.
pub const MEMORY_SIZE: u32 = 4096;
/// Ports of the port region.
pub const PORT_SIZE: u32 = 256;

/// Header: test, width, two reserved bytes, then offset, data and count as double words, a name.
const HEADER_SIZE: usize = 16;
const COUNT_AT: usize = 12;
/// All tests write bytes of this value.
const DATA: u32 = 0xFA;
const NAMES: [&str; 3] = ["any-data", "any-size", "matching-data"];
const MATCHING: u8 = 2;

/// Per region, which test runs and how many of its writes arrived.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TestFunction {
    /// Per region, the selected test and its count of writes.
    selected: [Option<u8>; 2],
    counts: [u32; 2],
}

/// The request for one: boards with test devices have it.
#[derive(Clone, Copy, Debug)]
pub struct Request;

impl PciRequest for Request {
    type Device = TestFunction;

    const NAMES: &'static [Name<Self>] = &[];

    fn places(&self) -> Places {
        Places::At(map::PCI_TEST_DEVICE)
    }

    fn functions(
        &self,
        _number: u8,
        at: &[FunctionAddress],
        room: &mut Room,
    ) -> Vec<Function<TestFunction>> {
        let (vendor, device) = IDENTITY;
        let class = class::UNDEFINED;
        let mut configuration =
            Configuration::new(Identity { vendor, device, class, ..Identity::default() });
        for (index, bar) in [
            (MEMORY_BAR, Bar::Memory32 { size: MEMORY_SIZE }),
            (PORT_BAR, Bar::Io { size: PORT_SIZE }),
        ] {
            configuration.set_bar(index, bar, room.allocate(bar));
        }
        configuration.set_command(Command::IO_SPACE | Command::MEMORY_SPACE);
        vec![Function::new(at[0], configuration, TestFunction::default())]
    }

    fn digest(&self) -> String {
        "test".to_owned()
    }
}

impl PciDevice for TestFunction {
    fn read(&mut self, _: &mut Attachment, bar: usize, offset: u64, size: u8) -> u32 {
        self.look(bar, offset, size)
    }

    fn write(&mut self, _: &mut Attachment, bar: usize, offset: u64, size: u8, value: u32) {
        self.take(bar, offset, size, value);
    }
}

impl TestFunction {
    /// Reads the header of the test that the region has selected; zero before one is.
    fn look(&self, bar: usize, offset: u64, size: u8) -> u32 {
        match self.selected.get(bar).copied().flatten() {
            Some(test) => lanes::load(&self.header(bar, test), offset, size) as u32,
            None => 0,
        }
    }

    /// Selects a test at offset 0; elsewhere counts the write, if it is the one that the test asks
    /// for.
    fn take(&mut self, bar: usize, offset: u64, size: u8, value: u32) {
        let Some(selected) = self.selected.get_mut(bar) else { return };
        if offset == 0 {
            let test = value as u8;
            *selected = (usize::from(test) < NAMES.len()).then_some(test);
            self.counts[bar] = 0;
        } else if let Some(test) = *selected
            && offset == target(bar, test)
            && (test != MATCHING || (size == 1 && value & 0xFF == DATA))
        {
            self.counts[bar] = self.counts[bar].wrapping_add(1);
        }
    }

    fn header(&self, bar: usize, test: u8) -> Vec<u8> {
        let mut header = vec![0; HEADER_SIZE];
        header[0] = test;
        header[1] = 1;
        header[4..8].copy_from_slice(&(target(bar, test) as u32).to_le_bytes());
        header[8..12].copy_from_slice(&DATA.to_le_bytes());
        header[COUNT_AT..].copy_from_slice(&self.counts[bar].to_le_bytes());
        header.extend(NAMES[usize::from(test) % NAMES.len()].bytes());
        header.push(0);
        header
    }
}

/// The offset whose writes a test counts: past the header, one byte per test.
fn target(bar: usize, test: u8) -> u64 {
    let base = if bar == MEMORY_BAR { MEMORY_SIZE / 2 } else { PORT_SIZE / 2 };
    u64::from(base) + u64::from(test)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_counts_writes_to_its_offset() {
        for bar in [MEMORY_BAR, PORT_BAR] {
            for test in 0..3 {
                let mut function = TestFunction::default();
                function.take(bar, 0, 1, test);
                let offset = function.look(bar, 4, 4);
                let data = function.look(bar, 8, 4);
                for _ in 0..16 {
                    function.take(bar, offset.into(), 1, data);
                }
                function.take(bar, u64::from(offset) + 1, 1, data);
                function.take(bar, offset.into(), 2, data);
                let others = u32::from(test != 2);
                assert_eq!(function.look(bar, 12, 4), 16 + others, "bar {bar}, test {test}");
                assert_eq!(function.look(bar, 1, 1), 1);
                assert_ne!(function.look(bar, 16, 1), 0);
            }
        }
    }

    #[test]
    fn an_unknown_test_deselects() {
        let mut function = TestFunction::default();
        function.take(0, 0, 1, 0);
        function.take(0, 0, 1, 3);
        assert_eq!(function.look(0, 4, 4), 0);
        assert_eq!(function.look(5, 4, 4), 0);
        function.take(5, 0, 1, 0);
    }
}

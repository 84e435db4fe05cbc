//! The configuration space of a function: bytes, which of their bits a driver may change, base
//! address registers and the chain of capabilities. [PCI "Configuration Space Organization"]

use crate::lanes;
use arch::pci::{Command, Status, header};
use serde::{Deserialize, Serialize};

const SIZE: usize = 256;
/// Base address registers of a type 0 header.
pub const BAR_COUNT: usize = 6;

/// What a base address register maps. Sizes are powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bar {
    /// Not implemented: reads zero.
    Absent,
    /// A range of ports.
    Io {
        /// In ports.
        size: u32,
    },
    /// A range below 4 GiB.
    Memory32 {
        /// In bytes.
        size: u32,
    },
    /// Takes this register and the next.
    Memory64 {
        /// In bytes.
        size: u64,
    },
}

impl Bar {
    /// Bytes or ports that the region takes; zero if there is none.
    pub const fn size(self) -> u64 {
        match self {
            Self::Absent => 0,
            Self::Io { size } | Self::Memory32 { size } => size as u64,
            Self::Memory64 { size } => size,
        }
    }

    /// Whether the region lies in memory space, not among the ports.
    pub const fn is_memory(self) -> bool {
        matches!(self, Self::Memory32 { .. } | Self::Memory64 { .. })
    }
}

/// The identity of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Who made the function, a number that the PCI-SIG assigns.
    pub vendor: u16,
    /// Which of the vendor's products it is.
    pub device: u16,
    /// Chosen by the vendor; drivers look here for quirks.
    pub revision: u8,
    /// Class and subclass.
    pub class: u16,
    /// The low byte of the class code: which register set within the class.
    pub programming_interface: u8,
    /// Who made the board that carries the function.
    pub subsystem_vendor: u16,
    /// Which of that vendor's boards it is; virtio says its type here once more.
    pub subsystem: u16,
}

/// The 256 bytes of a function's configuration space, with access rules for every bit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Configuration {
    bytes: Vec<u8>,
    writable: Vec<u8>,
    write_one_clears: Vec<u8>,
    bars: [Bar; BAR_COUNT],
    /// Where the next capability goes, and where the last one's link is.
    next_free: u8,
    last_link: u8,
}

impl Configuration {
    /// A type 0 header with neither regions nor capabilities.
    pub fn new(identity: Identity) -> Self {
        let mut new = Self {
            bytes: vec![0; SIZE],
            writable: vec![0; SIZE],
            write_one_clears: vec![0; SIZE],
            bars: [Bar::Absent; BAR_COUNT],
            next_free: header::FIRST_CAPABILITY as u8,
            last_link: header::CAPABILITIES as u8,
        };
        new.set(header::VENDOR, 2, identity.vendor.into());
        new.set(header::DEVICE, 2, identity.device.into());
        new.set(header::REVISION, 1, identity.revision.into());
        new.set(header::PROGRAMMING_INTERFACE, 1, identity.programming_interface.into());
        new.set(header::SUBCLASS, 2, identity.class.into());
        new.set(header::SUBSYSTEM_VENDOR, 2, identity.subsystem_vendor.into());
        new.set(header::SUBSYSTEM, 2, identity.subsystem.into());
        new.allow(header::COMMAND, 2, Command::all().bits().into());
        new.allow(header::CACHE_LINE_SIZE, 1, 0xFF);
        new.allow(header::LATENCY_TIMER, 1, 0xFF);
        new.allow(header::INTERRUPT_LINE, 1, 0xFF);
        new
    }

    /// The value of a register, whatever its access rules.
    pub fn get(&self, offset: u16, size: u8) -> u32 {
        lanes::load(&self.bytes, offset.into(), size) as u32
    }

    /// Sets a register, whatever its access rules.
    pub fn set(&mut self, offset: u16, size: u8, value: u32) {
        lanes::store(&mut self.bytes, offset.into(), size, value.into());
    }

    /// Says which bits of a register a driver may change.
    pub fn allow(&mut self, offset: u16, size: u8, mask: u32) {
        lanes::store(&mut self.writable, offset.into(), size, mask.into());
    }

    /// Says which bits of a register a driver clears by writing ones.
    pub fn allow_clearing(&mut self, offset: u16, size: u8, mask: u32) {
        lanes::store(&mut self.write_one_clears, offset.into(), size, mask.into());
    }

    /// A driver's read. What lies beyond the 256 bytes reads as zero: no extended capabilities.
    pub fn read(&self, offset: u16, size: u8) -> u32 {
        self.get(offset, size)
    }

    /// A driver's write.
    pub fn write(&mut self, offset: u16, size: u8, value: u32) {
        for i in 0..u16::from(size.min(4)) {
            let at = usize::from(offset) + usize::from(i);
            let Some(byte) = self.bytes.get_mut(at) else { return };
            let written = (value >> (i * 8)) as u8;
            let (writable, clears) = (self.writable[at], self.write_one_clears[at]);
            *byte = (*byte & !writable | written & writable) & !(written & clears);
        }
    }

    /// Every bit that a driver may change is as after power-on. Base addresses are among them.
    pub fn reset(&mut self) {
        for (byte, writable) in self.bytes.iter_mut().zip(&self.writable) {
            *byte &= !writable;
        }
    }

    /// The command register: which spaces are decoded, bus mastering, INTx.
    pub fn command(&self) -> Command {
        Command::from_bits_truncate(self.get(header::COMMAND, 2) as u16)
    }

    /// Sets the command register as firmware would.
    pub fn set_command(&mut self, command: Command) {
        self.set(header::COMMAND, 2, command.bits().into());
    }

    /// Sets or clears bits of the status register that the device reports.
    pub fn set_status(&mut self, flags: Status, is_set: bool) {
        let mut status = Status::from_bits_retain(self.get(header::STATUS, 2) as u16);
        status.set(flags, is_set);
        self.set(header::STATUS, 2, status.bits().into());
    }

    /// Declares a base address register and gives it its first address.
    pub fn set_bar(&mut self, index: usize, bar: Bar, address: u64) {
        let register = bar_register(index);
        self.bars[index] = bar;
        match bar {
            Bar::Absent => {}
            Bar::Io { size } => {
                self.allow(register, 4, !(size - 1) & !3);
                self.set(register, 4, address as u32 & !3 | 1);
            }
            Bar::Memory32 { size } => {
                self.allow(register, 4, !(size - 1) & !15);
                self.set(register, 4, address as u32 & !15);
            }
            Bar::Memory64 { size } => {
                let mask = !(size - 1) & !15;
                self.allow(register, 4, mask as u32);
                self.allow(register + 4, 4, (mask >> 32) as u32);
                self.set(register, 4, address as u32 & !15 | 4);
                self.set(register + 4, 4, (address >> 32) as u32);
            }
        }
    }

    /// What a base address register was declared as.
    pub fn bar(&self, index: usize) -> Bar {
        self.bars.get(index).copied().unwrap_or(Bar::Absent)
    }

    /// Where a base address register maps its region, if the command register lets it.
    pub fn mapped(&self, index: usize) -> Option<u64> {
        let low = self.get(bar_register(index), 4);
        let command = self.command();
        let address = match self.bar(index) {
            Bar::Absent => return None,
            Bar::Io { .. } if command.contains(Command::IO_SPACE) => u64::from(low & !3),
            Bar::Memory32 { .. } if command.contains(Command::MEMORY_SPACE) => u64::from(low & !15),
            Bar::Memory64 { .. } if command.contains(Command::MEMORY_SPACE) => {
                u64::from(self.get(bar_register(index) + 4, 4)) << 32 | u64::from(low & !15)
            }
            _ => return None,
        };
        Some(address)
    }

    /// The region that holds `address` in memory (or port) space: its index and the offset in it.
    pub fn decode(&self, address: u64, is_memory: bool) -> Option<(usize, u64)> {
        (0..BAR_COUNT).filter(|&index| self.bar(index).is_memory() == is_memory).find_map(|index| {
            let offset = address.checked_sub(self.mapped(index)?)?;
            (offset < self.bar(index).size()).then_some((index, offset))
        })
    }

    /// Appends a capability: its identifier, the link, and `content` from offset 2 on. Gives its
    /// offset, or nothing if the 256 bytes are full.
    pub fn add_capability(&mut self, id: u8, content: &[u8]) -> Option<u8> {
        let offset = self.next_free;
        let length = (content.len() + 2).next_multiple_of(4);
        let end = usize::from(offset) + length;
        if end > SIZE {
            return None;
        }
        self.bytes[usize::from(offset)] = id;
        self.bytes[usize::from(offset) + 2..][..content.len()].copy_from_slice(content);
        self.bytes[usize::from(self.last_link)] = offset;
        self.last_link = offset + 1;
        // A full space leaves an offset that no further capability fits behind.
        self.next_free = end.min(SIZE - 1) as u8;
        self.set_status(Status::CAPABILITIES, true);
        Some(offset)
    }
}

const fn bar_register(index: usize) -> u16 {
    header::BASE_ADDRESS + 4 * index as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> Configuration {
        Configuration::new(Identity {
            vendor: 0x1AF4,
            device: 0x1041,
            revision: 1,
            class: 0x0200,
            programming_interface: 0,
            subsystem_vendor: 0x1AF4,
            subsystem: 0x0040,
        })
    }

    #[test]
    fn identity_is_read_only_and_class_is_in_its_place() {
        let mut space = space();
        for offset in [0x00, 0x08, 0x2C] {
            let before = space.read(offset, 4);
            space.write(offset, 4, !before);
            assert_eq!(space.read(offset, 4), before);
        }
        assert_eq!(space.read(0x08, 4), 0x0200_0001);
    }

    #[test]
    fn sizing_a_bar_gives_its_size_and_type() {
        for (bar, low, high) in [
            (Bar::Io { size: 0x40 }, 0xFFFF_FFC1, 0),
            (Bar::Memory32 { size: 0x4000 }, 0xFFFF_C000, 0),
            (Bar::Memory64 { size: 0x4000 }, 0xFFFF_C004, 0xFFFF_FFFF),
            (Bar::Absent, 0, 0),
        ] {
            let mut space = space();
            space.set_bar(0, bar, 0xC000);
            space.write(0x10, 4, u32::MAX);
            space.write(0x14, 4, u32::MAX);
            assert_eq!((space.read(0x10, 4), space.read(0x14, 4)), (low, high), "{bar:?}");
        }
    }

    #[test]
    fn a_bar_decodes_where_it_was_moved_while_its_space_is_enabled() {
        let mut space = space();
        space.set_bar(1, Bar::Memory32 { size: 0x1000 }, 0xC000_0000);
        assert_eq!(space.decode(0xC000_0010, true), None, "memory space is off");
        space.write(4, 2, 2);
        assert_eq!(space.decode(0xC000_0010, true), Some((1, 0x10)));
        assert_eq!(space.decode(0xC000_0010, false), None);
        space.write(0x14, 4, 0xD123_4567);
        assert_eq!(space.decode(0xC000_0010, true), None);
        assert_eq!(space.decode(0xD123_4FFF, true), Some((1, 0xFFF)));
        assert_eq!(space.decode(0xD123_5000, true), None);
    }

    #[test]
    fn bytes_are_written_alone_and_ones_clear_where_they_shall() {
        let mut space = space();
        space.set(0x80, 4, 0xFFFF_FFFF);
        space.allow(0x80, 4, 0x0000_FF00);
        space.allow_clearing(0x80, 4, 0x00F0_0000);
        space.write(0x81, 1, 0x12);
        assert_eq!(space.read(0x80, 4), 0xFFFF_12FF);
        space.write(0x82, 2, 0xFF30);
        assert_eq!(space.read(0x80, 4), 0xFFCF_12FF);
        space.write(0xFFE, 4, 1);
        assert_eq!(space.read(0xFFE, 4), 0);
    }

    #[test]
    fn capabilities_are_chained_until_the_space_is_full() {
        let mut space = space();
        assert_eq!(space.read(0x06, 2) & 0x10, 0);
        assert_eq!(space.add_capability(0x09, &[0x10; 14]), Some(0x40));
        assert_eq!(space.add_capability(0x11, &[0; 10]), Some(0x50));
        assert_eq!(space.read(0x06, 2) & 0x10, 0x10);
        assert_eq!(space.read(0x34, 1), 0x40);
        assert_eq!(space.read(0x40, 2), 0x5009);
        assert_eq!(space.read(0x50, 2), 0x0011);
        while space.add_capability(0x09, &[0; 14]).is_some() {}
        let (mut at, mut length) = (space.read(0x34, 1), 0);
        while at != 0 {
            at = space.read(at as u16 + 1, 1);
            length += 1;
        }
        assert_eq!(length, 12);
    }
}

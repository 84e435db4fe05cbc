//! The firmware configuration device: items by key, read through a data port or by DMA.
//! [FWCFG "QEMU Firmware Configuration (fw_cfg) Device"]
//!
//! DEVIATION(FWCFG "Write DMA"): items are read-only; a DMA write reports an error.

use crate::lanes;
use crate::map;
use arch::address::Device;
use bus::Context;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Selectors of items. [FWCFG "Firmware Configuration Items"]
pub mod key {
    /// "QEMU": the device is there.
    pub const SIGNATURE: u16 = 0x00;
    /// Which interfaces there are. Bit 0: selector and data port. Bit 1: DMA.
    pub const ID: u16 = 0x01;
    /// Bytes of RAM, 64 bits.
    pub const RAM_SIZE: u16 = 0x03;
    /// Nonzero: there is no display.
    pub const NO_GRAPHIC: u16 = 0x04;
    /// Processors at power-on, 16 bits.
    pub const CPU_COUNT: u16 = 0x05;
    /// The limit of processors, 16 bits.
    pub const MAXIMUM_CPUS: u16 = 0x0F;
    /// The RAM limit that kvm-unit-tests asks for.
    pub const MAXIMUM_RAM: u16 = 0x11;
    /// How many files there are, then an entry for each; big-endian.
    pub const FILE_DIRECTORY: u16 = 0x19;
    /// The first file's key; further ones follow.
    pub const FIRST_FILE: u16 = 0x20;
}

/// Traditional interface and DMA.
const FEATURES: u32 = 3;
/// What the DMA address register reads as: "QEMU CFG".
const DMA_SIGNATURE: u64 = 0x5145_4D55_2043_4647;
const FILE_NAME_SIZE: usize = 56;
/// Largest transfer of one command, so that no guest keeps the board busy.
const MAXIMUM_TRANSFER: u32 = 16 << 20;
const CHUNK: usize = 4096;

mod dma_control {
    pub const ERROR: u32 = 1 << 0;
    pub const READ: u32 = 1 << 1;
    pub const SKIP: u32 = 1 << 2;
    pub const SELECT: u32 = 1 << 3;
    pub const WRITE: u32 = 1 << 4;
}

/// The items, which of them is selected, and how far it has been read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FirmwareConfiguration {
    items: BTreeMap<u16, Vec<u8>>,
    /// Names of the files, in the order of their keys from [`key::FIRST_FILE`].
    names: Vec<String>,
    selected: u16,
    position: u32,
    dma_address: u64,
    /// The place in an item that says where the window to configuration space is.
    window: Option<(u16, u64)>,
}

impl FirmwareConfiguration {
    /// The items that every board has; no files.
    pub fn new(cpus: u16, memory_size: u64) -> Self {
        let items = [
            (key::SIGNATURE, b"QEMU".to_vec()),
            (key::ID, FEATURES.to_le_bytes().to_vec()),
            (key::RAM_SIZE, memory_size.to_le_bytes().to_vec()),
            (key::NO_GRAPHIC, 1u16.to_le_bytes().to_vec()),
            (key::CPU_COUNT, cpus.to_le_bytes().to_vec()),
            (key::MAXIMUM_CPUS, cpus.to_le_bytes().to_vec()),
            (key::MAXIMUM_RAM, memory_size.to_le_bytes().to_vec()),
            (key::FILE_DIRECTORY, 0u32.to_be_bytes().to_vec()),
        ];
        Self {
            items: items.into(),
            names: Vec::new(),
            selected: 0,
            position: 0,
            dma_address: 0,
            window: None,
        }
    }

    /// Adds or replaces a file; gives its key. Names longer than 55 bytes are cut.
    pub fn add_file(&mut self, name: &str, content: Vec<u8>) -> u16 {
        let known = self.names.iter().position(|known| known == name);
        let index = known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        let key = key::FIRST_FILE.saturating_add(index as u16);
        self.items.insert(key, content);
        self.items.insert(key::FILE_DIRECTORY, self.directory());
        key
    }

    /// From now on the eight bytes at `offset` of a file say where the window to configuration
    /// space is.
    pub fn tell_window_at(&mut self, file: &str, offset: u64) {
        let index = self.names.iter().position(|known| known == file);
        self.window = index.map(|index| (key::FIRST_FILE.saturating_add(index as u16), offset));
    }

    /// The window to configuration space is at `base`.
    pub(crate) fn tell_window(&mut self, base: u64) {
        if let Some((key, offset)) = self.window
            && let Some(item) = self.items.get_mut(&key)
        {
            lanes::store(item, offset, 8, base);
        }
    }

    /// Selects an item and begins at its first byte; one that is not there reads as zeroes.
    pub fn select(&mut self, key: u16) {
        self.selected = key;
        self.position = 0;
    }

    /// The next byte of the selected item; zero beyond its end.
    pub fn read_data(&mut self) -> u8 {
        let item = self.items.get(&self.selected);
        let byte = item.and_then(|item| item.get(self.position as usize)).copied();
        self.position = self.position.saturating_add(1);
        byte.unwrap_or(0)
    }

    /// The DMA address register is big-endian and starts at [`map::FIRMWARE_CONFIGURATION_DMA`].
    pub fn read_dma(&self, offset: u64, size: u8) -> u32 {
        lanes::load(&DMA_SIGNATURE.to_be_bytes(), offset, size) as u32
    }

    /// A write that reaches the last byte starts the command.
    pub fn write_dma(&mut self, cx: &mut Context, offset: u64, size: u8, value: u32) {
        let mut bytes = self.dma_address.to_be_bytes();
        lanes::store(&mut bytes, offset, size, value.into());
        self.dma_address = u64::from_be_bytes(bytes);
        if offset + u64::from(size) >= 8 {
            let address = Device(core::mem::take(&mut self.dma_address));
            self.execute(cx, address);
        }
    }

    /// Runs the command structure at `address`: control, length, address, all big-endian.
    fn execute(&mut self, cx: &mut Context, address: Device) {
        let requester = map::ISA_BRIDGE.requester();
        let mut command = [0; 16];
        if cx.memory.read(requester, address, &mut command).is_err() {
            return;
        }
        let word = |at: usize| {
            u32::from_be_bytes([command[at], command[at + 1], command[at + 2], command[at + 3]])
        };
        let (control, length) = (word(0), word(4));
        let target = Device(u64::from(word(8)) << 32 | u64::from(word(12)));
        if control & dma_control::SELECT != 0 {
            self.select((control >> 16) as u16);
        }
        let result = if control & dma_control::READ != 0 {
            self.copy_out(cx, target, length)
        } else if control & dma_control::WRITE != 0 {
            Err(())
        } else {
            if control & dma_control::SKIP != 0 {
                self.position = self.position.saturating_add(length);
            }
            Ok(())
        };
        let answer = if result.is_ok() { 0 } else { dma_control::ERROR };
        // The guest polls this word; where it cannot be written there is nobody to tell.
        let _ = cx.memory.write(requester, address, &answer.to_be_bytes());
    }

    fn copy_out(&mut self, cx: &mut Context, target: Device, length: u32) -> Result<(), ()> {
        if length > MAXIMUM_TRANSFER {
            return Err(());
        }
        let item = self.items.get(&self.selected).map_or(&[][..], Vec::as_slice);
        let rest = item.get(self.position as usize..).unwrap_or(&[]);
        for at in (0..length as usize).step_by(CHUNK) {
            let mut chunk = [0; CHUNK];
            let wanted = CHUNK.min(length as usize - at);
            let source = rest.get(at..).unwrap_or(&[]);
            let present = wanted.min(source.len());
            chunk[..present].copy_from_slice(&source[..present]);
            cx.memory
                .write(map::ISA_BRIDGE.requester(), target.offset(at as u64), &chunk[..wanted])
                .map_err(|_| ())?;
        }
        self.position = self.position.saturating_add(length);
        Ok(())
    }

    /// The directory, big-endian: count, then size, key, two reserved bytes and name of each file.
    fn directory(&self) -> Vec<u8> {
        let mut bytes = (self.names.len() as u32).to_be_bytes().to_vec();
        for (index, name) in self.names.iter().enumerate() {
            let key = key::FIRST_FILE.saturating_add(index as u16);
            let size = self.items.get(&key).map_or(0, Vec::len) as u32;
            bytes.extend(size.to_be_bytes());
            bytes.extend(key.to_be_bytes());
            bytes.extend([0; 2]);
            let mut field = [0; FILE_NAME_SIZE];
            let kept = name.len().min(FILE_NAME_SIZE - 1);
            field[..kept].copy_from_slice(&name.as_bytes()[..kept]);
            bytes.extend(field);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Bench;
    use arch::address::SystemPhysical;

    fn take(device: &mut FirmwareConfiguration, key: u16, length: usize) -> Vec<u8> {
        device.select(key);
        (0..length).map(|_| device.read_data()).collect()
    }

    #[test]
    fn items_read_little_endian_and_zero_beyond_their_end() {
        let mut device = FirmwareConfiguration::new(5, 0x1_2345_6000);
        for (key, expected) in [
            (0x00, &b"QEMU\0"[..]),
            (0x01, &[3, 0, 0, 0, 0]),
            (0x03, &[0x00, 0x60, 0x45, 0x23, 1, 0, 0, 0, 0]),
            (0x05, &[5, 0]),
            (0x0F, &[5, 0]),
            (0x7777, &[0, 0, 0]),
        ] {
            assert_eq!(take(&mut device, key, expected.len()), expected, "key {key:#x}");
        }
    }

    #[test]
    fn the_directory_lists_files_in_order_of_their_keys() {
        let mut device = FirmwareConfiguration::new(1, 1 << 20);
        assert_eq!(device.add_file("etc/first", vec![1; 3]), 0x20);
        assert_eq!(device.add_file("etc/second", vec![2; 0x105]), 0x21);
        assert_eq!(device.add_file("etc/first", vec![3; 2]), 0x20, "replaced");
        let directory = take(&mut device, 0x19, 4 + 2 * 64);
        assert_eq!(directory[..4], [0, 0, 0, 2]);
        assert_eq!(directory[4..12], [0, 0, 0, 2, 0, 0x20, 0, 0]);
        assert_eq!(&directory[12..22], b"etc/first\0");
        assert_eq!(directory[68..76], [0, 0, 1, 5, 0, 0x21, 0, 0]);
        assert_eq!(take(&mut device, 0x20, 3), [3, 3, 0]);
    }

    /// Runs a DMA command placed at 1000h, by two big-endian halves as drivers write them.
    fn command(bench: &mut Bench, device: &mut FirmwareConfiguration, words: [u32; 4]) -> u32 {
        let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
        bench.memory.write(SystemPhysical(0x1000), &bytes).unwrap();
        device.write_dma(&mut bench.context(), 0, 4, 0);
        device.write_dma(&mut bench.context(), 4, 4, 0x1000u32.swap_bytes());
        bench.memory.read_u32(SystemPhysical(0x1000)).unwrap().swap_bytes()
    }

    #[test]
    fn dma_selects_reads_skips_and_reports_errors() {
        let mut bench = Bench::new();
        let mut device = FirmwareConfiguration::new(1, 1 << 20);
        let key = u32::from(device.add_file("f", (0..10_000u32).map(|i| i as u8).collect()));
        assert_eq!(device.read_dma(0, 4), u32::from_le_bytes(*b"QEMU"));
        assert_eq!(command(&mut bench, &mut device, [key << 16 | 0x0A, 6000, 0, 0x2000]), 0);
        let copied = bench.memory.slice(SystemPhysical(0x2000), 6001).unwrap();
        assert!(copied[..6000].iter().enumerate().all(|(i, &byte)| byte == i as u8));
        assert_eq!(copied[6000], 0);
        assert_eq!(command(&mut bench, &mut device, [0x04, 3, 0, 0]), 0);
        assert_eq!(device.read_data(), 6003u32 as u8);
        for (words, why) in [
            ([0x02, u32::MAX, 0, 0x2000], "too long"),
            ([0x02, 16, 0xFFFF_FFFF, 0xFFFF_FFF8], "not memory"),
            ([0x10, 16, 0, 0x2000], "a write"),
        ] {
            assert_eq!(command(&mut bench, &mut device, words), 1, "{why}");
        }
    }
}

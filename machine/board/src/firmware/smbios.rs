//! A minimal SMBIOS 3 table, so that kernels can name the machine. [SMBIOS "SMBIOS Structures"]

use super::bios_area::{SMBIOS_ENTRY, SMBIOS_TABLE};
use super::table::checksum;
use crate::topology::{Level, Topology};
use arch::address::SystemPhysical;
use bus::{GuestMemory, OutOfRange};

const VENDOR: &str = "Avicenna";
const PRODUCT: &str = "Avicenna machine";
const VERSION: &str = env!("CARGO_PKG_VERSION");
const DATE: &str = "01/01/2026";
/// Sockets beyond this are left out, so that the table stays below its 64 KiB.
const MOST_SOCKETS: u16 = 64;

pub(super) fn install(memory: &mut GuestMemory, topology: &Topology) -> Result<(), OutOfRange> {
    let layout = memory.layout();
    let table = build(topology, layout.low, layout.high);
    memory.write(SystemPhysical(SMBIOS_TABLE), &table)?;
    memory.write(SystemPhysical(SMBIOS_ENTRY), &entry_point(table.len(), SMBIOS_TABLE))
}

/// [SMBIOS "SMBIOS 3.0 (64-bit) Entry Point"]
pub(super) fn entry_point(table_size: usize, table: u64) -> Vec<u8> {
    let mut bytes = Vec::from(b"_SM3_");
    // Checksum, length, version 3.0.0, revision of this structure.
    bytes.extend([0, 24, 3, 0, 0, 1, 0]);
    bytes.extend((table_size as u32).to_le_bytes());
    bytes.extend(table.to_le_bytes());
    bytes[5] = checksum(&bytes);
    bytes
}

/// Structures behind one another, each with its strings.
struct Structures {
    bytes: Vec<u8>,
    next_handle: u16,
}

impl Structures {
    /// Appends a structure; its handle.
    fn add(&mut self, kind: u8, body: &[u8], strings: &[&str]) -> u16 {
        let handle = self.next_handle;
        self.next_handle += 1;
        self.bytes.extend([kind, body.len() as u8 + 4]);
        self.bytes.extend(handle.to_le_bytes());
        self.bytes.extend(body);
        for string in strings {
            self.bytes.extend(string.as_bytes());
            self.bytes.push(0);
        }
        if strings.is_empty() {
            self.bytes.push(0);
        }
        self.bytes.push(0);
        handle
    }
}

pub(super) fn build(topology: &Topology, low: u64, high: u64) -> Vec<u8> {
    let mut table = Structures { bytes: Vec::new(), next_handle: 0 };
    firmware(&mut table);
    system(&mut table);
    chassis(&mut table);
    for _ in 0..topology.sockets().min(MOST_SOCKETS) {
        processor(&mut table, topology);
    }
    let array = memory_array(&mut table, low + high);
    memory_device(&mut table, array, low + high);
    mapped_address(&mut table, array, 0, low);
    mapped_address(&mut table, array, bus::HOLE_END, high);
    const END_OF_TABLE: u8 = 127;
    table.add(END_OF_TABLE, &[], &[]);
    table.bytes
}

/// [SMBIOS "BIOS Information (Type 0)"]
fn firmware(table: &mut Structures) {
    const NO_CHARACTERISTICS: u64 = 1 << 3;
    const IS_VIRTUAL_MACHINE: u8 = 1 << 4;
    // Vendor, version, segment E000h, date, 128 KiB.
    let mut body = vec![1, 2, 0, 0xE0, 3, 1];
    body.extend(NO_CHARACTERISTICS.to_le_bytes());
    body.extend([0, IS_VIRTUAL_MACHINE, 0, 1, 0xFF, 0xFF, 0, 0]);
    table.add(0, &body, &[VENDOR, VERSION, DATE]);
}

/// [SMBIOS "System Information (Type 1)"]
fn system(table: &mut Structures) {
    const WAKE_UP_POWER_SWITCH: u8 = 6;
    let mut body = vec![1, 2, 3, 0];
    // The UUID is not set.
    body.extend([0; 16]);
    body.extend([WAKE_UP_POWER_SWITCH, 0, 0]);
    table.add(1, &body, &[VENDOR, PRODUCT, VERSION]);
}

/// [SMBIOS "System Enclosure or Chassis (Type 3)"]
fn chassis(table: &mut Structures) {
    const OTHER: u8 = 1;
    const SAFE: u8 = 3;
    const NO_SECURITY: u8 = 3;
    let mut body = vec![1, OTHER, 0, 0, 0, SAFE, SAFE, SAFE, NO_SECURITY];
    // OEM word; height, cords, contained elements and their size, SKU.
    body.extend([0; 9]);
    table.add(3, &body, &[VENDOR]);
}

/// [SMBIOS "Processor Information (Type 4)"]
fn processor(table: &mut Structures, topology: &Topology) {
    const CENTRAL: u8 = 3;
    const FAMILY_SEE_SECOND: u8 = 0xFE;
    const FAMILY_X86_64_OTHER: u16 = 1;
    const POPULATED_ENABLED: u8 = 0x41;
    const UPGRADE_OTHER: u8 = 1;
    const NO_CACHE: [u8; 2] = [0xFF, 0xFF];
    const IS_64_BIT: u16 = 1 << 2;
    let threads = topology.cpus_per(Level::Socket);
    let cores = threads / topology.count(Level::Thread);
    let small = |count: u16| count.min(0xFF) as u8;
    let mut body = vec![1, CENTRAL, FAMILY_SEE_SECOND, 2];
    // Identification (CPUID's business), version string, voltage, three clocks: all unknown.
    body.extend([0; 8 + 1 + 1 + 6]);
    body.extend([POPULATED_ENABLED, UPGRADE_OTHER]);
    body.extend(NO_CACHE.repeat(3));
    // Serial number, asset tag, part number.
    body.extend([0; 3]);
    body.extend([small(cores), small(cores), small(threads)]);
    body.extend(IS_64_BIT.to_le_bytes());
    body.extend(FAMILY_X86_64_OTHER.to_le_bytes());
    body.extend([cores, cores, threads].into_iter().flat_map(u16::to_le_bytes));
    table.add(4, &body, &["CPU", VENDOR]);
}

const NO_ERROR_HANDLE: u16 = 0xFFFE;

/// [SMBIOS "Physical Memory Array (Type 16)"]
fn memory_array(table: &mut Structures, total: u64) -> u16 {
    const SYSTEM_BOARD: u8 = 3;
    const SYSTEM_MEMORY: u8 = 3;
    const NO_CORRECTION: u8 = 3;
    const SEE_EXTENDED: u32 = 0x8000_0000;
    let mut body = vec![SYSTEM_BOARD, SYSTEM_MEMORY, NO_CORRECTION];
    body.extend(SEE_EXTENDED.to_le_bytes());
    body.extend(NO_ERROR_HANDLE.to_le_bytes());
    body.extend(1u16.to_le_bytes());
    body.extend(total.to_le_bytes());
    table.add(16, &body, &[])
}

/// [SMBIOS "Memory Device (Type 17)"]
fn memory_device(table: &mut Structures, array: u16, total: u64) {
    const WIDTH_BITS: u16 = 64;
    const SEE_EXTENDED: u16 = 0x7FFF;
    const FORM_DIMM: u8 = 9;
    const TYPE_RAM: u8 = 7;
    const DETAIL_OTHER: u16 = 1 << 1;
    let mut body = Vec::new();
    let words = [array, NO_ERROR_HANDLE, WIDTH_BITS, WIDTH_BITS, SEE_EXTENDED];
    body.extend(words.into_iter().flat_map(u16::to_le_bytes));
    body.extend([FORM_DIMM, 0, 1, 0, TYPE_RAM]);
    body.extend(DETAIL_OTHER.to_le_bytes());
    // Speed; manufacturer; serial number, asset tag, part number, rank.
    body.extend([0, 0, 2, 0, 0, 0, 0]);
    body.extend(((total >> 20) as u32).to_le_bytes());
    // Configured speed and voltages.
    body.extend([0; 8]);
    table.add(17, &body, &["DIMM 0", VENDOR]);
}

/// [SMBIOS "Memory Array Mapped Address (Type 19)"]
fn mapped_address(table: &mut Structures, array: u16, start: u64, length: u64) {
    if length == 0 {
        return;
    }
    const SEE_EXTENDED: u32 = u32::MAX;
    let mut body = [SEE_EXTENDED.to_le_bytes(); 2].concat();
    body.extend(array.to_le_bytes());
    body.push(1);
    body.extend([start, start + length - 1].into_iter().flat_map(u64::to_le_bytes));
    table.add(19, &body, &[]);
}

//! Commands by which firmware of others puts ACPI tables into memory: it takes the tables from a
//! file, finds room for them, makes addresses of the offsets in them, and sums them up again.
//! [FWCFG "Firmware Configuration Files"], and QEMU's bios-linker-loader.c

use super::acpi::{Image, Places};
use super::table::HEADER_SIZE;

pub(super) const ROOT_POINTER: &str = "etc/acpi/rsdp";
pub(super) const TABLES: &str = "etc/acpi/tables";

const COMMAND_SIZE: usize = 128;
const NAME_SIZE: usize = 56;

/// Where firmware is to find room.
#[derive(Clone, Copy)]
pub(super) enum Zone {
    /// Anywhere below 4 GiB.
    High = 1,
    /// In the segment that is searched for root pointers.
    BiosSegment = 2,
}

struct Command(Vec<u8>);

impl Command {
    fn new(code: u32) -> Self {
        Self(code.to_le_bytes().to_vec())
    }

    fn name(mut self, name: &str) -> Self {
        let end = self.0.len() + NAME_SIZE;
        self.0.extend(name.as_bytes());
        self.0.resize(end, 0);
        self
    }

    fn word(mut self, value: usize) -> Self {
        self.0.extend((value as u32).to_le_bytes());
        self
    }

    fn byte(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    fn finish(mut self) -> Vec<u8> {
        self.0.resize(COMMAND_SIZE, 0);
        self.0
    }
}

/// Take a file into memory.
pub(super) fn allocate(name: &str, alignment: usize, zone: Zone) -> Vec<u8> {
    Command::new(1).name(name).word(alignment).byte(zone as u8).finish()
}

/// Add the address of the tables to a field.
fn add_pointer(name: &str, offset: usize, size: u8) -> Vec<u8> {
    Command::new(2).name(name).name(TABLES).word(offset).byte(size).finish()
}

/// Sum up `[start, start + length)`.
fn add_checksum(name: &str, result: usize, start: usize, length: usize) -> Vec<u8> {
    Command::new(3).name(name).word(result).word(start).word(length).finish()
}

/// All commands for tables whose addresses count from the first table's.
pub(super) fn commands(image: &Image) -> Vec<u8> {
    const PAGE: usize = 4096;
    const RSDP_ALIGNMENT: usize = 16;
    const RSDP_RSDT: usize = 16;
    const RSDP_XSDT: usize = 24;
    const RSDP_FIRST_CHECKSUM: usize = 8;
    const RSDP_FIRST_SIZE: usize = 20;
    const RSDP_SECOND_CHECKSUM: usize = 32;
    let mut all = vec![
        allocate(ROOT_POINTER, RSDP_ALIGNMENT, Zone::BiosSegment),
        allocate(TABLES, PAGE, Zone::High),
    ];
    all.extend(pointers(image).map(|(offset, size)| add_pointer(TABLES, offset, size)));
    all.extend(
        tables(image).map(|(start, length)| add_checksum(TABLES, start + CHECKSUM, start, length)),
    );
    all.push(add_pointer(ROOT_POINTER, RSDP_RSDT, 4));
    all.push(add_pointer(ROOT_POINTER, RSDP_XSDT, 8));
    all.push(add_checksum(ROOT_POINTER, RSDP_FIRST_CHECKSUM, 0, RSDP_FIRST_SIZE));
    all.push(add_checksum(ROOT_POINTER, RSDP_SECOND_CHECKSUM, 0, image.rsdp.len()));
    all.concat()
}

/// Where a table has its checksum.
const CHECKSUM: usize = 9;

/// The files, their checksums left to the commands.
pub(super) fn files(mut image: Image) -> (Vec<u8>, Vec<u8>) {
    for start in &image.places.all {
        image.bytes[start + CHECKSUM] = 0;
    }
    image.rsdp[8] = 0;
    image.rsdp[32] = 0;
    (image.rsdp, image.bytes)
}

/// Fields with an address: where they are and their size.
fn pointers(image: &Image) -> impl Iterator<Item = (usize, u8)> {
    const FACS: usize = 36;
    const DSDT: usize = 40;
    const X_DSDT: usize = 140;
    let Places { fadt, rsdt, xsdt, .. } = image.places;
    let entries = move |root: usize, size: usize| {
        (root + HEADER_SIZE..root + length(image, root))
            .step_by(size)
            .map(move |at| (at, size as u8))
    };
    let of_fadt = [(fadt + FACS, 4), (fadt + DSDT, 4), (fadt + X_DSDT, 8)];
    of_fadt.into_iter().chain(entries(rsdt, 4)).chain(entries(xsdt, 8))
}

/// Tables with a checksum: where they are and their size.
fn tables(image: &Image) -> impl Iterator<Item = (usize, usize)> {
    image.places.all.iter().map(|start| (*start, length(image, *start)))
}

fn length(image: &Image, table: usize) -> usize {
    let field = image.bytes.get(table + 4..).and_then(|bytes| bytes.first_chunk());
    field.map_or(0, |length| u32::from_le_bytes(*length) as usize)
}

#[cfg(test)]
mod tests {
    use super::super::acpi::{Home, build};
    use super::*;
    use crate::firmware::FirmwareOptions;
    use crate::topology::Topology;
    use bus::MemoryLayout;
    use std::collections::BTreeMap;

    /// Does as firmware does, and answers the files in memory.
    fn obey(
        script: &[u8],
        mut files: BTreeMap<&str, Vec<u8>>,
        base: u64,
    ) -> BTreeMap<String, Vec<u8>> {
        let name = |bytes: &[u8]| {
            let text: Vec<u8> = bytes.iter().copied().take_while(|byte| *byte != 0).collect();
            String::from_utf8(text).expect("a name")
        };
        for command in script.chunks_exact(COMMAND_SIZE) {
            let word =
                |at: usize| u32::from_le_bytes(*command[at..].first_chunk().unwrap()) as usize;
            let file = name(&command[4..60]);
            let bytes = files.get_mut(file.as_str()).expect("a file");
            match word(0) {
                1 => assert!(word(60).is_power_of_two()),
                2 => {
                    assert_eq!(name(&command[60..116]), TABLES);
                    let (at, size) = (word(116), usize::from(command[120]));
                    let mut value = [0; 8];
                    value[..size].copy_from_slice(&bytes[at..at + size]);
                    let value = u64::from_le_bytes(value) + base;
                    bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
                }
                3 => {
                    let (at, start, length) = (word(60), word(64), word(68));
                    let sum =
                        bytes[start..start + length].iter().fold(0u8, |a, b| a.wrapping_add(*b));
                    bytes[at] = 0u8.wrapping_sub(sum);
                }
                other => panic!("command {other}"),
            }
        }
        files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect()
    }

    #[test]
    fn firmware_that_obeys_has_the_tables_that_we_would_have_put_there() {
        let topology = Topology::of_cores(3).expect("three");
        let options = FirmwareOptions::new(&topology);
        let layout = MemoryLayout::new(64 << 20);
        let wanted = build(&options, layout, Home::LowRam);
        let image = build(&options, layout, Home::Anywhere);
        let script = commands(&image);
        let (rsdp, tables) = files(image);
        let given = BTreeMap::from([(ROOT_POINTER, rsdp), (TABLES, tables)]);
        let found = obey(&script, given, wanted.base);
        assert!(found[TABLES] == wanted.bytes, "tables");
        assert_eq!(found[ROOT_POINTER], wanted.rsdp);
    }
}

use super::*;
use crate::topology::Topology;
use arch::address::SystemPhysical;
use std::collections::BTreeMap;
use std::process::Command;

/// A table's place and bytes, by signature.
type Tables = BTreeMap<String, (u64, Vec<u8>)>;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn is_summed(bytes: &[u8]) -> bool {
    bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) == 0
}

fn table(memory: &GuestMemory, address: u64) -> (String, Vec<u8>) {
    let header = memory.slice(SystemPhysical(address), 8).unwrap();
    let signature = String::from_utf8(header[..4].to_vec()).unwrap();
    let length = u32_at(header, 4) as usize;
    (signature, memory.slice(SystemPhysical(address), length).unwrap().to_vec())
}

fn install_on(shape: [u16; 5], size: u64) -> (GuestMemory, Firmware, Tables) {
    let topology = Topology::new(shape[0], shape[1], shape[2], shape[3], shape[4]).unwrap();
    let mut memory = GuestMemory::new(size);
    let firmware = install(&mut memory, &FirmwareOptions::new(&topology)).unwrap();
    let tables = walk(&memory, &firmware);
    (memory, firmware, tables)
}

/// Follows the pointers as a kernel does, from the searched-for root to the DSDT and the FACS.
fn walk(memory: &GuestMemory, firmware: &Firmware) -> Tables {
    let found = (0xE_0000..0x10_0000)
        .step_by(16)
        .find(|at| memory.slice(SystemPhysical(*at), 8).unwrap() == b"RSD PTR ");
    assert_eq!(found, Some(firmware.rsdp.0));
    let rsdp = memory.slice(firmware.rsdp, 36).unwrap();
    assert!(is_summed(&rsdp[..20]) && is_summed(rsdp));
    let (name, xsdt) = table(memory, u64_at(rsdp, 24));
    assert_eq!(name, "XSDT");
    let (name, rsdt) = table(memory, u32_at(rsdp, 16).into());
    assert_eq!(name, "RSDT");
    assert!(is_summed(&xsdt) && is_summed(&rsdt));
    let listed: Vec<u64> = xsdt[36..].chunks(8).map(|entry| u64_at(entry, 0)).collect();
    let short: Vec<u64> = rsdt[36..].chunks(4).map(|entry| u32_at(entry, 0).into()).collect();
    assert_eq!(listed, short);
    let mut tables = Tables::new();
    for address in listed {
        let (name, bytes) = table(memory, address);
        assert!(is_summed(&bytes), "checksum of {name}");
        tables.insert(name, (address, bytes));
    }
    let fadt = tables["FACP"].1.clone();
    assert_eq!(u64::from(u32_at(&fadt, 40)), u64_at(&fadt, 140));
    for address in [u32_at(&fadt, 36), u32_at(&fadt, 40)] {
        let (name, bytes) = table(memory, address.into());
        assert!(name == "FACS" || is_summed(&bytes), "checksum of {name}");
        tables.insert(name, (address.into(), bytes));
    }
    tables
}

const GIB: u64 = 1 << 30;
const SHAPES: &[([u16; 5], u64)] = &[
    ([1, 1, 1, 1, 1], 2 << 20),
    ([1, 1, 1, 8, 1], 256 << 20),
    ([2, 1, 4, 8, 2], 4 * GIB),
    ([1, 1, 1, 254, 1], GIB),
    ([1, 1, 1, 255, 1], GIB),
    ([1, 1, 1, 256, 1], GIB),
    ([4, 1, 16, 8, 2], GIB),
];

#[test]
fn every_table_is_reachable_summed_and_outside_usable_memory() {
    for (shape, size) in SHAPES {
        let (_, firmware, tables) = install_on(*shape, *size);
        for name in ["APIC", "MCFG", "HPET", "DSDT", "FACS", "FACP"] {
            assert!(tables.contains_key(name), "{name} for {shape:?}");
        }
        assert_eq!(tables.contains_key("SRAT"), shape[0] > 1);
        assert_eq!(tables["FACP"].1.len(), 276);
        assert_eq!(tables["FACS"].0 % 64, 0);
        for (name, (address, bytes)) in &tables {
            let kind = kind_of(&firmware, *address, bytes.len() as u64);
            let expected = match name.as_str() {
                "FACS" => MemoryKind::AcpiNonVolatile,
                _ => MemoryKind::AcpiReclaimable,
            };
            assert_eq!(kind, Some(expected), "{name} for {shape:?}");
        }
    }
}

fn kind_of(firmware: &Firmware, start: u64, length: u64) -> Option<MemoryKind> {
    let region = firmware
        .memory_map
        .iter()
        .find(|region| region.start <= start && start + length <= region.start + region.length);
    region.map(|region| region.kind)
}

#[test]
fn the_memory_map_is_sorted_disjoint_and_covers_all_ram() {
    for (shape, size) in SHAPES {
        let (memory, firmware, _) = install_on(*shape, *size);
        let map = &firmware.memory_map;
        assert!(map.is_sorted_by(|a, b| a.start + a.length <= b.start), "{map:?}");
        let ram: u64 = map
            .iter()
            .filter(|region| memory.offset(SystemPhysical(region.start)).is_some())
            .map(|region| region.length)
            .sum();
        // Only the video window, A0000h to DFFFFh, is in no region.
        assert_eq!(ram, size - 0x4_0000, "{map:?}");
    }
}

/// Type, length and body of a MADT's structures.
fn madt_structures(madt: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut rest = &madt[44..];
    let mut structures = Vec::new();
    while !rest.is_empty() {
        let (structure, tail) = rest.split_at(rest[1].into());
        structures.push((structure[0], structure.to_vec()));
        rest = tail;
    }
    structures
}

#[test]
fn the_madt_names_every_apic_once_and_255_and_above_as_x2apic() {
    for (shape, size) in SHAPES {
        let topology = Topology::new(shape[0], shape[1], shape[2], shape[3], shape[4]).unwrap();
        let (.., tables) = install_on(*shape, *size);
        let structures = madt_structures(&tables["APIC"].1);
        let ids: Vec<(u32, u32)> = structures
            .iter()
            .filter_map(|(kind, bytes)| match kind {
                0 => Some((u32::from(bytes[3]), u32::from(bytes[2]))),
                9 => Some((u32_at(bytes, 4), u32_at(bytes, 12))),
                _ => None,
            })
            .collect();
        let expected: Vec<_> =
            topology.cpus().map(|cpu| (topology.apic_id(cpu).0, u32::from(cpu.0))).collect();
        assert_eq!(ids, expected);
        let is_wide = |id: u32| id >= 255;
        let wide = structures.iter().filter(|(kind, _)| *kind == 9).count();
        assert_eq!(wide, ids.iter().filter(|(id, _)| is_wide(*id)).count());
        assert_eq!(structures.iter().any(|(kind, _)| *kind == 10), wide > 0);
        let overrides: Vec<_> = structures
            .iter()
            .filter(|(kind, _)| *kind == 2)
            .map(|(_, bytes)| (bytes[3], u32_at(bytes, 4), bytes[8]))
            .collect();
        assert_eq!(overrides, [(0, 2, 0), (9, 9, 0b1101)]);
    }
}

#[test]
fn memory_is_dealt_to_sockets_around_the_hole() {
    let layout = |size| GuestMemory::new(size).layout();
    assert_eq!(
        acpi::memory_of_sockets(2, layout(4 * GIB)),
        [(0, 0, 2 * GIB), (1, 2 * GIB, GIB), (1, 4 * GIB, GIB)]
    );
    assert_eq!(acpi::memory_of_sockets(1, layout(GIB)), [(0, 0, GIB)]);
    let dealt: u64 =
        acpi::memory_of_sockets(3, layout(5 * GIB)).iter().map(|(_, _, length)| length).sum();
    assert_eq!(dealt, 5 * GIB);
}

#[test]
fn too_little_memory_is_refused_with_what_is_needed() {
    let topology = Topology::of_cores(64).unwrap();
    for size in [0, 0x1000, 1 << 20] {
        let mut memory = GuestMemory::new(size);
        let refused = install(&mut memory, &FirmwareOptions::new(&topology)).unwrap_err();
        assert!(refused.ram == size && refused.needed > 1 << 20);
        let mut memory = GuestMemory::new(refused.needed.next_multiple_of(4096));
        assert!(install(&mut memory, &FirmwareOptions::new(&topology)).is_ok());
    }
}

#[test]
fn smbios_structures_end_where_the_entry_point_says() {
    let (memory, ..) = install_on([2, 1, 1, 4, 2], GIB);
    let entry = memory.slice(SystemPhysical(bios_area::SMBIOS_ENTRY), 24).unwrap();
    assert!(entry.starts_with(b"_SM3_") && is_summed(entry));
    let length = u32_at(entry, 12) as usize;
    let mut rest = memory.slice(SystemPhysical(u64_at(entry, 16)), length).unwrap();
    let mut kinds = Vec::new();
    while !rest.is_empty() {
        kinds.push((rest[0], rest[1]));
        let strings = &rest[rest[1].into()..];
        let end = strings.windows(2).position(|pair| pair == [0, 0]).unwrap() + 2;
        rest = &strings[end..];
    }
    // Type and length as the specification gives them for version 3.0.
    let expected =
        [(0, 0x1A), (1, 0x1B), (3, 0x16), (4, 0x30), (4, 0x30), (16, 0x17), (17, 0x28), (19, 0x1F)];
    assert_eq!(kinds[..kinds.len() - 1], expected);
    assert_eq!(kinds.last(), Some(&(127, 4)));
}

#[test]
fn bios_data_names_the_extended_area_and_the_reset_vector_stops() {
    let (memory, firmware, _) = install_on([1, 1, 1, 1, 1], 16 << 20);
    let read = |at: u64, length| memory.slice(SystemPhysical(at), length).unwrap();
    let segment = u16::from_le_bytes(read(0x40E, 2).try_into().unwrap());
    let area = u64::from(segment) << 4;
    assert_eq!(kind_of(&firmware, area, 1024), Some(MemoryKind::Reserved));
    assert_eq!(kind_of(&firmware, area - 1, 1), Some(MemoryKind::Usable));
    let jump = read(0xF_FFF0, 5);
    assert_eq!(jump[0], 0xEA);
    let target = u64::from(u16::from_le_bytes([jump[3], jump[4]])) * 16
        + u64::from(u16::from_le_bytes([jump[1], jump[2]]));
    assert_eq!(read(target, 2), [0xFA, 0xF4]);
}

#[test]
fn an_independent_disassembler_reads_the_tables_without_complaint() {
    if Command::new("iasl").arg("-v").output().is_err() {
        println!("skipped: iasl (package acpica-tools) is not installed");
        return;
    }
    let directory = std::env::temp_dir().join(format!("avicenna-acpi-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    for (shape, size) in [([2, 1, 1, 2, 2], GIB), ([1, 1, 1, 300, 1], GIB)] {
        let (.., tables) = install_on(shape, size);
        for (name, (_, bytes)) in &tables {
            let file = directory.join(format!("{name}.aml"));
            std::fs::write(&file, bytes).unwrap();
            let run = Command::new("iasl").arg("-d").arg(&file).output().unwrap();
            let said = String::from_utf8_lossy(&run.stderr).to_lowercase();
            let complaint = ["error", "warning", "invalid", "unknown", "incorrect"]
                .iter()
                .find(|word| said.contains(*word));
            assert!(run.status.success() && complaint.is_none(), "{name}: {said}");
        }
        // What was disassembled compiles again, so the namespace holds together.
        let source = directory.join("DSDT.dsl");
        let run = Command::new("iasl").arg("-oa").arg(&source).output().unwrap();
        let said = String::from_utf8_lossy(&run.stdout).into_owned()
            + &String::from_utf8_lossy(&run.stderr);
        assert!(said.contains("0 Errors"), "{said}");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

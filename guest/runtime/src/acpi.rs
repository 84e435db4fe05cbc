//! The few facts of ACPI's tables that are needed: which processors there are, and how to switch
//! off. [ACPI "ACPI Software Programming Model"]
//!
//! DEVIATION(ACPI "Declaring Objects"): `_S5` is found by its name and read as a package of small
//! integers; no AML is executed.

use crate::memory;

const SIGNATURE: &[u8; 8] = b"RSD PTR ";
const HEADER: usize = 36;
/// Longer tables, or lists of more, are not read further.
const LONGEST_TABLE: u32 = 1 << 20;
const MOST_TABLES: usize = 64;

/// MADT: processor entries, and the flag of those that can be used.
const LOCAL_APIC: u8 = 0;
const LOCAL_X2APIC: u8 = 9;
const ENABLED: u32 = 1;
const MADT_ENTRIES: usize = 44;

/// FADT offsets.
const DSDT: u64 = 40;
const PM1A_CONTROL: u64 = 64;

/// AML: a name, a package, the prefix of a byte.
const PACKAGE: u8 = 0x12;
const BYTE_PREFIX: u8 = 0x0A;

/// What to write where to reach S5.
pub struct SoftOff {
    /// The PM1a control register's port.
    pub port: u16,
    /// SLP_TYP of S5, 0 to 7.
    pub sleep_type: u16,
}

/// A table's bytes, header included.
fn table(address: u64) -> Option<&'static [u8]> {
    let length = memory::read::<u32>(address + 4)?;
    if (length as usize) < HEADER || length > LONGEST_TABLE {
        return None;
    }
    memory::bytes(address, length as usize)
}

/// The root pointer: in the first KiB of the extended BIOS data area, or below 1 MiB.
/// [ACPI "Finding the RSDP on IA-PC Systems"]
fn root_pointer() -> Option<u64> {
    let extended = u64::from(memory::read::<u16>(0x40E)?) << 4;
    let areas = [(extended, 1024), (0xE_0000, 0x2_0000)];
    areas.into_iter().filter(|(start, _)| *start >= 0x8_0000).find_map(|(start, length)| {
        (start..start + length).step_by(16).find(|&address| {
            memory::bytes(address, 20).is_some_and(|bytes| {
                bytes.starts_with(SIGNATURE)
                    && bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) == 0
            })
        })
    })
}

fn find(signature: &[u8; 4]) -> Option<&'static [u8]> {
    let root = root_pointer()?;
    let revision = memory::read::<u8>(root + 15)?;
    let extended = if revision >= 2 { memory::read::<u64>(root + 24)? } else { 0 };
    let (list, width) = match extended {
        0 => (u64::from(memory::read::<u32>(root + 16)?), 4),
        address => (address, 8),
    };
    let entries = table(list)?[HEADER..].chunks_exact(width).take(MOST_TABLES);
    entries
        .map(|entry| entry.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
        .filter_map(table)
        .find(|table| table.starts_with(signature))
}

fn little_endian(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// How many processors the MADT calls enabled; None without one.
pub fn processor_count() -> Option<usize> {
    let mut rest = find(b"APIC")?.get(MADT_ENTRIES..)?;
    let mut count = 0;
    while let [kind, length, ..] = *rest {
        let entry = rest.get(..usize::from(length)).filter(|entry| entry.len() >= 2)?;
        let flags = match kind {
            LOCAL_APIC => little_endian(entry, 4),
            LOCAL_X2APIC => little_endian(entry, 8),
            _ => None,
        };
        count += usize::from(flags.is_some_and(|flags| flags & ENABLED != 0));
        rest = &rest[entry.len()..];
    }
    (count > 0).then_some(count)
}

/// How to switch off, as FADT and DSDT say.
pub fn soft_off() -> Option<SoftOff> {
    let fadt = find(b"FACP")?;
    let port = little_endian(fadt, PM1A_CONTROL as usize)?;
    let code = table(u64::from(little_endian(fadt, DSDT as usize)?))?;
    let at = code.windows(5).position(|bytes| bytes.starts_with(b"_S5_") && bytes[4] == PACKAGE)?;
    // Package length (one byte up to 63), element count, then the first element.
    let value = code.get(at + 7..at + 9)?;
    let sleep_type = if value[0] == BYTE_PREFIX { value[1] } else { value[0] };
    Some(SoftOff { port: u16::try_from(port).ok()?, sleep_type: u16::from(sleep_type & 7) })
}

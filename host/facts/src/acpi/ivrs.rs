//! IVRS. [IOMMU "I/O Virtualization ACPI table"]
//!
//! Left out: memory definition blocks (IVMD), which say nothing about interrupts.

use super::{Damage, STRUCTURES_LIMIT, Table, read_u8, read_u16, read_u32, read_u64, structure};
use reading::{Ivhd, Ivrs};

const HEADER: usize = 48;

/// Blocks of an IVRS table, of types 10h, 11h and 40h.
pub fn ivrs(bytes: &[u8]) -> Result<Ivrs, Damage> {
    let table = Table::parse(bytes, "IVRS", HEADER)?;
    let bytes = table.bytes;
    let mut ivrs = Ivrs {
        revision: read_u8(bytes, 8)?,
        checksum_is_right: table.checksum_is_right,
        iv_info: read_u32(bytes, 36)?,
        blocks: vec![],
    };
    let mut offset = HEADER;
    for _ in 0..STRUCTURES_LIMIT {
        if offset >= bytes.len() {
            break;
        }
        let kind = read_u8(bytes, offset)?;
        let length = usize::from(read_u16(bytes, offset + 2)?);
        let block = structure(bytes, offset, length, 4)?;
        if matches!(kind, 0x10 | 0x11 | 0x40) {
            let damage = |damage: Damage| Damage { offset: damage.offset + offset, ..damage };
            ivrs.blocks.push(ivhd(block).map_err(damage)?);
        }
        offset += length;
    }
    Ok(ivrs)
}

fn ivhd(block: &[u8]) -> Result<Ivhd, Damage> {
    let kind = read_u8(block, 0)?;
    let has_efr = kind != 0x10;
    let entries = if has_efr { 40 } else { 24 };
    Ok(Ivhd {
        kind,
        flags: read_u8(block, 1)?,
        device_id: read_u16(block, 4)?,
        segment: read_u16(block, 16)?,
        base: read_u64(block, 8)?,
        attributes: read_u32(block, 20)?,
        efr: has_efr.then(|| read_u64(block, 24)).transpose()?,
        efr2: has_efr.then(|| read_u64(block, 32)).transpose()?,
        io_apics: io_apics(block, entries)?,
    })
}

/// Identifiers of special device entries of variety 1, I/O APIC.
fn io_apics(block: &[u8], mut offset: usize) -> Result<Vec<u8>, Damage> {
    let mut found = vec![];
    for _ in 0..STRUCTURES_LIMIT {
        if offset >= block.len() {
            break;
        }
        let kind = read_u8(block, offset)?;
        // The two top bits give the length; ACPI HID entries carry an identifier of their own
        // length.
        let length = match kind {
            0xF0 => 22 + usize::from(read_u8(block, offset + 21)?),
            0x00..=0x7F => 4 << (kind >> 6),
            _ => 4 << (kind >> 6 & 3),
        };
        if kind == 0x48 && read_u8(block, offset + 7)? == 1 {
            found.push(read_u8(block, offset + 4)?);
        }
        offset += length;
    }
    Ok(found)
}

//! DMAR. [VTD "DMA Remapping Reporting Structure"]
//!
//! Left out: reserved memory, ATS and affinity structures.

use super::{Damage, STRUCTURES_LIMIT, Table, read_u8, read_u16, read_u64, structure};
use reading::{Dmar, table::Drhd};

const HEADER: usize = 48;

/// Units and flags of a DMAR table.
pub fn dmar(bytes: &[u8]) -> Result<Dmar, Damage> {
    let table = Table::parse(bytes, "DMAR", HEADER)?;
    let bytes = table.bytes;
    let mut dmar = Dmar {
        checksum_is_right: table.checksum_is_right,
        host_address_width: read_u8(bytes, 36)?.saturating_add(1),
        flags: read_u8(bytes, 37)?,
        units: vec![],
    };
    let mut offset = HEADER;
    for _ in 0..STRUCTURES_LIMIT {
        if offset >= bytes.len() {
            break;
        }
        let kind = read_u16(bytes, offset)?;
        let length = usize::from(read_u16(bytes, offset + 2)?);
        let block = structure(bytes, offset, length, 4)?;
        if kind == 0 {
            let damage = |damage: Damage| Damage { offset: damage.offset + offset, ..damage };
            dmar.units.push(drhd(block).map_err(damage)?);
        }
        offset += length;
    }
    Ok(dmar)
}

fn drhd(block: &[u8]) -> Result<Drhd, Damage> {
    let mut unit = Drhd {
        flags: read_u8(block, 4)?,
        segment: read_u16(block, 6)?,
        base: read_u64(block, 8)?,
        io_apics: vec![],
    };
    let mut offset = 16;
    for _ in 0..STRUCTURES_LIMIT {
        if offset >= block.len() {
            break;
        }
        let length = usize::from(read_u8(block, offset + 1)?);
        let scope = structure(block, offset, length, 6)?;
        if scope[0] == 3 {
            unit.io_apics.push(scope[4]);
        }
        offset += length;
    }
    Ok(unit)
}

//! MADT. [ACPI "Multiple APIC Description Table"]

use super::{Damage, STRUCTURES_LIMIT, Table, read_u8, read_u32, structure};
use reading::Madt;

const HEADER: usize = 44;

/// Processors and I/O APICs of a MADT.
pub fn madt(bytes: &[u8]) -> Result<Madt, Damage> {
    let table = Table::parse(bytes, "APIC", HEADER)?;
    let bytes = table.bytes;
    let mut madt = Madt { checksum_is_right: table.checksum_is_right, ..Madt::default() };
    let mut offset = HEADER;
    for _ in 0..STRUCTURES_LIMIT * 4 {
        if offset >= bytes.len() {
            break;
        }
        let length = usize::from(read_u8(bytes, offset + 1)?);
        let entry = structure(bytes, offset, length, 2)?;
        let processor = match read_u8(entry, 0)? {
            0 => Some((u32::from(read_u8(entry, 3)?), read_u32(entry, 4)?)),
            9 => Some((read_u32(entry, 4)?, read_u32(entry, 8)?)),
            1 => {
                madt.io_apics.push(read_u8(entry, 2)?);
                None
            }
            _ => None,
        };
        if let Some((apic_id, flags)) = processor
            && flags & 1 == 1
        {
            madt.processors += 1;
            madt.highest_apic_id = madt.highest_apic_id.max(apic_id);
        }
        offset += length;
    }
    Ok(madt)
}

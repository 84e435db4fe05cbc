//! Readers of ACPI tables. Every length in them is checked against the bytes that are there.
//!
//! [ACPI "System Description Table Header"]. Left out: tables without influence on interrupts.

mod dmar;
pub mod dump;
mod ivrs;
mod madt;

pub use dmar::dmar;
pub use ivrs::ivrs;
pub use madt::madt;

/// Tables that are read.
pub const SIGNATURES: &[&str] = &["APIC", "DMAR", "IVRS"];

/// Where the kernel shows a table.
pub fn place(signature: &str) -> String {
    format!("sys/firmware/acpi/tables/{signature}")
}

/// What is wrong with a table, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {offset}")]
pub struct Damage {
    /// What was found, or what is missing.
    pub what: String,
    /// From the table's start.
    pub offset: usize,
}

/// Most structures that are read of one table.
const STRUCTURES_LIMIT: usize = 4096;

/// A table whose signature and length fit; the checksum is reported, not demanded: firmware gets it
/// wrong.
struct Table<'a> {
    bytes: &'a [u8],
    checksum_is_right: bool,
}

impl<'a> Table<'a> {
    fn parse(bytes: &'a [u8], signature: &str, header: usize) -> Result<Table<'a>, Damage> {
        if !bytes.starts_with(signature.as_bytes()) {
            return Err(Damage { what: format!("no signature {signature}"), offset: 0 });
        }
        let length = read_u32(bytes, 4)? as usize;
        if length < header {
            return Err(Damage {
                what: format!("length {length} is shorter than the header"),
                offset: 4,
            });
        }
        let Some(bytes) = bytes.get(..length) else {
            return Err(Damage {
                what: format!("length {length}, but only {} bytes are there", bytes.len()),
                offset: 4,
            });
        };
        let sum = bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        Ok(Table { bytes, checksum_is_right: sum == 0 })
    }
}

fn read_u8(bytes: &[u8], offset: usize) -> Result<u8, Damage> {
    bytes.get(offset).copied().ok_or_else(|| Damage { what: "truncated".into(), offset })
}

fn read_u16(bytes: &[u8], offset: usize) -> Result<u16, Damage> {
    read(bytes, offset).map(u16::from_le_bytes)
}

fn read_u32(bytes: &[u8], offset: usize) -> Result<u32, Damage> {
    read(bytes, offset).map(u32::from_le_bytes)
}

fn read_u64(bytes: &[u8], offset: usize) -> Result<u64, Damage> {
    read(bytes, offset).map(u64::from_le_bytes)
}

fn read<const N: usize>(bytes: &[u8], offset: usize) -> Result<[u8; N], Damage> {
    bytes
        .get(offset..offset.saturating_add(N))
        .and_then(|slice| slice.try_into().ok())
        .ok_or_else(|| Damage { what: "truncated".into(), offset })
}

/// The part of a structure that its own length field claims.
fn structure(bytes: &[u8], offset: usize, length: usize, least: usize) -> Result<&[u8], Damage> {
    if length < least {
        return Err(Damage {
            what: format!("structure length {length}, at least {least}"),
            offset,
        });
    }
    bytes.get(offset..offset.saturating_add(length)).ok_or_else(|| Damage {
        what: format!("structure length {length} beyond the table"),
        offset,
    })
}

#[cfg(test)]
mod tests;

//! A named file in memory, read with bounds.

use super::error::LoadError;

/// A file's name, for messages, and its bytes.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// As messages call it.
    pub name: &'a str,
    /// All of the file.
    pub bytes: &'a [u8],
}

impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} bytes)", self.name, self.bytes.len())
    }
}

impl<'a> Source<'a> {
    /// `length` bytes at `offset`, which hold `what`.
    pub(super) fn slice(
        &self,
        offset: u64,
        length: u64,
        what: &str,
    ) -> Result<&'a [u8], LoadError> {
        let end = offset.checked_add(length).filter(|end| *end <= self.bytes.len() as u64);
        let Some(end) = end else {
            return Err(LoadError::Truncated {
                file: self.name.into(),
                what: what.into(),
                offset,
                needed: length,
                length: self.bytes.len() as u64,
            });
        };
        Ok(&self.bytes[offset as usize..end as usize])
    }

    fn array<const N: usize>(&self, offset: u64, what: &str) -> Result<[u8; N], LoadError> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.slice(offset, N as u64, what)?);
        Ok(bytes)
    }

    /// The byte at `offset`, which holds `what`.
    pub(super) fn u8(&self, offset: u64, what: &str) -> Result<u8, LoadError> {
        Ok(u8::from_le_bytes(self.array(offset, what)?))
    }

    /// Two bytes, little-endian.
    pub(super) fn u16(&self, offset: u64, what: &str) -> Result<u16, LoadError> {
        Ok(u16::from_le_bytes(self.array(offset, what)?))
    }

    /// Four bytes, little-endian.
    pub(super) fn u32(&self, offset: u64, what: &str) -> Result<u32, LoadError> {
        Ok(u32::from_le_bytes(self.array(offset, what)?))
    }

    /// Eight bytes, little-endian.
    pub(super) fn u64(&self, offset: u64, what: &str) -> Result<u64, LoadError> {
        Ok(u64::from_le_bytes(self.array(offset, what)?))
    }

    /// The error for a field that holds what it must not hold.
    pub(super) fn field(&self, field: &str, offset: u64, value: u64, expected: &str) -> LoadError {
        LoadError::Field {
            file: self.name.into(),
            field: field.into(),
            offset,
            value,
            expected: expected.into(),
        }
    }
}

//! A named file, in memory or read where it is needed, with bounds.

use super::error::LoadError;
use std::borrow::Cow;

/// A file that stays where it is until its bytes are wanted.
pub trait ReadAt: Sync {
    /// Fills all of `into` with what begins at `offset`.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> std::io::Result<()>;
}

/// A file's name, for messages, and its bytes.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// As messages call it.
    pub name: &'a str,
    content: Content<'a>,
}

#[derive(Clone, Copy)]
enum Content<'a> {
    /// All of the file.
    Memory(&'a [u8]),
    File {
        file: &'a dyn ReadAt,
        length: u64,
    },
}

impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} bytes)", self.name, self.length())
    }
}

impl<'a> Source<'a> {
    /// Of all of a file's bytes.
    pub const fn of(name: &'a str, bytes: &'a [u8]) -> Self {
        Self { name, content: Content::Memory(bytes) }
    }

    /// Of a file of so many bytes: what is loaded is read to where it is loaded.
    pub fn on_disk(name: &'a str, file: &'a dyn ReadAt, length: u64) -> Self {
        Self { name, content: Content::File { file, length } }
    }

    /// The same under another name.
    pub(super) fn called(self, name: &'a str) -> Self {
        Self { name, ..self }
    }

    /// Bytes of the file.
    pub fn length(&self) -> u64 {
        match self.content {
            Content::Memory(bytes) => bytes.len() as u64,
            Content::File { length, .. } => length,
        }
    }

    /// All bytes.
    pub(crate) fn whole(&self) -> Result<Cow<'a, [u8]>, LoadError> {
        self.slice(0, self.length(), "all of it")
    }

    /// The first bytes, `most` of them where there are as many.
    pub(super) fn head(&self, most: u64) -> Result<Cow<'a, [u8]>, LoadError> {
        self.slice(0, most.min(self.length()), "its head")
    }

    /// `length` bytes at `offset`, which hold `what`.
    pub(super) fn slice(
        &self,
        offset: u64,
        length: u64,
        what: &str,
    ) -> Result<Cow<'a, [u8]>, LoadError> {
        self.check(offset, length, what)?;
        match self.content {
            Content::Memory(bytes) => {
                Ok(Cow::Borrowed(&bytes[offset as usize..(offset + length) as usize]))
            }
            Content::File { .. } => {
                let mut bytes = vec![0; length as usize];
                self.copy(offset, &mut bytes, what)?;
                Ok(Cow::Owned(bytes))
            }
        }
    }

    /// Refuses what is not in the file.
    pub(super) fn check(&self, offset: u64, length: u64, what: &str) -> Result<(), LoadError> {
        match offset.checked_add(length).filter(|end| *end <= self.length()) {
            Some(_) => Ok(()),
            None => Err(LoadError::Truncated {
                file: self.name.into(),
                what: what.into(),
                offset,
                needed: length,
                length: self.length(),
            }),
        }
    }

    /// Fills `into` with what lies at `offset`, which is `what`.
    pub(super) fn copy(&self, offset: u64, into: &mut [u8], what: &str) -> Result<(), LoadError> {
        self.check(offset, into.len() as u64, what)?;
        match self.content {
            Content::Memory(bytes) => {
                into.copy_from_slice(&bytes[offset as usize..][..into.len()]);
                Ok(())
            }
            Content::File { file, .. } => file.read_at(offset, into).map_err(|error| {
                let (file, what) = (self.name.into(), what.into());
                LoadError::Read { file, what, offset, reason: error.to_string() }
            }),
        }
    }

    fn array<const N: usize>(&self, offset: u64, what: &str) -> Result<[u8; N], LoadError> {
        let mut bytes = [0; N];
        self.copy(offset, &mut bytes, what)?;
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

//! How messages are written: a length, a kind, a tag, then fields in little-endian order.

use crate::HEADER_SIZE;
use rustix::io::Errno;

/// Kinds of requests; an answer's kind is one more.
pub mod kind {
    /// Only as an answer.
    pub const ERROR: u8 = 6;
    pub const STATFS: u8 = 8;
    pub const LOPEN: u8 = 12;
    pub const LCREATE: u8 = 14;
    pub const SYMLINK: u8 = 16;
    pub const RENAME: u8 = 20;
    pub const READLINK: u8 = 22;
    pub const GETATTR: u8 = 24;
    pub const SETATTR: u8 = 26;
    pub const READDIR: u8 = 40;
    pub const FSYNC: u8 = 50;
    pub const LOCK: u8 = 52;
    pub const GETLOCK: u8 = 54;
    pub const LINK: u8 = 70;
    pub const MKDIR: u8 = 72;
    pub const RENAMEAT: u8 = 74;
    pub const UNLINKAT: u8 = 76;
    pub const VERSION: u8 = 100;
    pub const ATTACH: u8 = 104;
    pub const FLUSH: u8 = 108;
    pub const WALK: u8 = 110;
    pub const READ: u8 = 116;
    pub const WRITE: u8 = 118;
    pub const CLUNK: u8 = 120;
    pub const REMOVE: u8 = 122;
}

pub struct Header {
    pub length: usize,
    pub kind: u8,
    pub tag: u16,
}

impl Header {
    /// That of a message, if it is whole.
    pub fn of(message: &[u8]) -> Option<Self> {
        let mut reader = Reader(message.get(..HEADER_SIZE)?);
        let length = reader.u32().ok()? as usize;
        Some(Self { length, kind: reader.u8().ok()?, tag: reader.u16().ok()? })
    }

    /// Puts it in front of a message, where room was left.
    pub fn put(&self, message: &mut [u8]) {
        message[..4].copy_from_slice(&(self.length as u32).to_le_bytes());
        message[4] = self.kind;
        message[5..HEADER_SIZE].copy_from_slice(&self.tag.to_le_bytes());
    }
}

/// What is left of a request. A field that is not there whole is a broken message.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn u8(&mut self) -> Result<u8, Errno> {
        self.array().map(u8::from_le_bytes)
    }

    pub fn u16(&mut self) -> Result<u16, Errno> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Errno> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Errno> {
        self.array().map(u64::from_le_bytes)
    }

    /// Bytes behind their count: a name or a text.
    pub fn text(&mut self) -> Result<&'a [u8], Errno> {
        let length = self.u16()?;
        self.bytes(length.into())
    }

    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], Errno> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Errno::PROTO)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Errno> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Errno::PROTO)?;
        self.0 = rest;
        Ok(*taken)
    }
}

/// Fields of an answer, behind each other.
pub trait Writer {
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    /// No name and no link of a Linux host is longer than the count can say.
    fn put_text(&mut self, text: &[u8]);
}

impl Writer for Vec<u8> {
    fn put_u32(&mut self, value: u32) {
        self.extend(value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend(value.to_le_bytes());
    }

    fn put_text(&mut self, text: &[u8]) {
        let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
        self.extend(length.to_le_bytes());
        self.extend(&text[..length.into()]);
    }
}

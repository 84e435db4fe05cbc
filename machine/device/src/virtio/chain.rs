//! A chain of buffers: what the device may read, then what it may write.
//! [VIRTIO "Message Framing"]: nothing may depend on how bytes are spread over buffers.

use super::queue::Broken;
use crate::pci::Attachment;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub address: u64,
    pub length: u32,
}

#[derive(Clone, Debug)]
pub struct Chain {
    pub head: u16,
    pub readable: Vec<Segment>,
    pub writable: Vec<Segment>,
}

impl Chain {
    pub fn new(head: u16) -> Self {
        Self { head, readable: Vec::new(), writable: Vec::new() }
    }

    pub fn readable_length(&self) -> u64 {
        self.readable.iter().map(|segment| u64::from(segment.length)).sum()
    }

    pub fn writable_length(&self) -> u64 {
        self.writable.iter().map(|segment| u64::from(segment.length)).sum()
    }

    /// A chain holds at most 2^32 bytes. [VIRTIO "The Virtqueue Descriptor Table"]
    pub fn has_sane_length(&self) -> bool {
        self.readable_length() + self.writable_length() <= 1 << 32
    }

    /// Reads from byte `offset` of the readable part; gives how many bytes there were.
    pub fn read(
        &self,
        port: &mut Attachment,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Broken> {
        let mut done = 0;
        for piece in Pieces::new(&self.readable, offset, into.len()) {
            port.read(piece.address, &mut into[done..done + piece.length])?;
            done += piece.length;
        }
        Ok(done)
    }

    /// Writes from byte `offset` of the writable part; gives how many bytes there was room for.
    pub fn write(&self, port: &mut Attachment, offset: u64, from: &[u8]) -> Result<usize, Broken> {
        let mut done = 0;
        for piece in Pieces::new(&self.writable, offset, from.len()) {
            port.write(piece.address, &from[done..done + piece.length])?;
            done += piece.length;
        }
        Ok(done)
    }
}

struct Piece {
    address: u64,
    length: usize,
}

/// The pieces of guest memory that a range of a chain's bytes is made of.
struct Pieces<'a> {
    segments: core::slice::Iter<'a, Segment>,
    skip: u64,
    wanted: usize,
}

impl<'a> Pieces<'a> {
    fn new(segments: &'a [Segment], skip: u64, wanted: usize) -> Self {
        Self { segments: segments.iter(), skip, wanted }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        while self.wanted > 0 {
            let segment = self.segments.next()?;
            let Some(rest) = u64::from(segment.length).checked_sub(self.skip) else {
                self.skip -= u64::from(segment.length);
                continue;
            };
            let address = segment.address.wrapping_add(core::mem::take(&mut self.skip));
            let length = self.wanted.min(rest as usize);
            if length > 0 {
                self.wanted -= length;
                return Some(Piece { address, length });
            }
        }
        None
    }
}

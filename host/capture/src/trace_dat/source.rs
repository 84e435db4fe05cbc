//! Where one CPU's pages come from: as they are in the file, or in packed chunks of them.

use super::compression::{Compression, Unpacker};
use super::front::{CpuData, Front};
use super::page::{PAGE_HEADER, Walk};
use crate::Error;
use crate::parallel::Complaints;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes read at a time: few enough to stay in a core's cache, unless a page is larger.
const AT_A_TIME: usize = 256 << 10;
/// The kernel copies to the start of a page faster than to other places.
const ALIGNED: usize = 4 << 10;

/// Larger chunks are unpacked once more rather than kept.
const LARGEST_AHEAD: usize = 4 << 20;
/// Packed pages are read in longer stretches, so that few chunks are unpacked before their turn.
const PACKED_STRETCHES: u64 = 4;

/// Pages that were read and, if they were packed, unpacked.
#[derive(Default)]
pub struct Buffers {
    bytes: Vec<u8>,
    start: usize,
    filled: usize,
    unpacked: Vec<u8>,
    is_packed: bool,
    unpacker: Unpacker,
}

impl Buffers {
    pub fn pages(&self) -> &[u8] {
        if self.is_packed { &self.unpacked } else { &self.bytes[self.start..][..self.filled] }
    }

    fn read(&mut self, file: &File, at: u64, size: usize) -> Result<(), Error> {
        if self.bytes.len() < size + ALIGNED {
            self.bytes = vec![0; size + ALIGNED];
            self.start = self.bytes.as_ptr().align_offset(ALIGNED).min(ALIGNED);
        }
        (self.filled, self.is_packed) = (0, false);
        file.read_exact_at(&mut self.bytes[self.start..][..size], at)?;
        self.filled = size;
        Ok(())
    }

    fn unpack(&mut self, compression: Compression, size: usize) -> std::io::Result<()> {
        let packed = &self.bytes[self.start..][..self.filled];
        self.is_packed = true;
        self.unpacker.unpack(compression, packed, size, &mut self.unpacked)
    }
}

/// The rest of one CPU's pages.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    file: &'a File,
    complaints: &'a Complaints,
    /// Its place among all.
    index: usize,
    pub cpu: u32,
    pub page_size: usize,
    /// Where to read on, and the end of what is this source's.
    next: u64,
    end: u64,
    /// How pages are packed, and how many chunks of them are left.
    packing: Compression,
    chunks_left: Option<u32>,
    /// The next chunk, where it was unpacked to find out when it begins.
    ahead: Option<Vec<u8>>,
    /// A chunk before the next pages could not be unpacked.
    has_gap: bool,
    read: u64,
}

impl<'a> Source<'a> {
    pub fn new(
        (file, length): (&'a File, u64),
        complaints: &'a Complaints,
        front: &Front,
        index: usize,
    ) -> Result<Self, Error> {
        let data: CpuData = front.cpus[index];
        let end = data.offset.saturating_add(data.size).min(length);
        let mut source = Self {
            file,
            complaints,
            index,
            cpu: data.cpu,
            page_size: front.formats.page_size as usize,
            next: data.offset.min(length),
            end,
            packing: front.compression,
            chunks_left: None,
            ahead: None,
            has_gap: false,
            read: 0,
        };
        if data.size > end.saturating_sub(source.next) {
            source.complain(format!("the data of CPU {} breaks off", data.cpu));
        }
        if front.has_packed_pages && source.next < end {
            // The size leaves out the count of chunks, which bounds what is read.
            source.end = end.saturating_add(4).min(length);
            source.chunks_left = Some(u32::from_le_bytes(source.take()?));
        }
        Ok(source)
    }

    fn complain(&self, what: String) {
        self.complaints.add(self.index, self.next, what);
    }

    fn left(&self) -> u64 {
        self.end.saturating_sub(self.next)
    }

    fn check(&self, size: u64) -> Result<(), Error> {
        match self.left() {
            left if left < size => {
                let why = format!("{size} bytes are announced and {left} are there");
                Err(Error::malformed("pages of a CPU", self.next, why))
            }
            _ => Ok(()),
        }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        self.check(N as u64)?;
        let mut bytes = [0; N];
        self.file.read_exact_at(&mut bytes, self.next)?;
        self.next += N as u64;
        self.read += N as u64;
        Ok(bytes)
    }

    fn fill(&mut self, buffers: &mut Buffers, size: usize) -> Result<(), Error> {
        self.check(size as u64)?;
        buffers.read(self.file, self.next, size)?;
        self.next += size as u64;
        self.read += size as u64;
        Ok(())
    }

    /// Sizes of the next chunk, packed and unpacked; `None` behind the last.
    fn next_chunk(&mut self) -> Result<Option<[usize; 2]>, Error> {
        let Some(left) = self.chunks_left.and_then(|count| count.checked_sub(1)) else {
            return Ok(None);
        };
        self.chunks_left = Some(left);
        let head: [u8; 8] = self.take()?;
        let half = |at: usize| {
            u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize
        };
        Ok(Some([half(0), half(4)]))
    }

    /// Leaves out what cannot be found.
    fn give_up(&mut self, error: &Error) {
        self.complain(error.to_string());
        self.next = self.end;
        self.chunks_left = self.chunks_left.map(|_| 0);
    }

    /// Reads more pages for a walk that came to the end of those before; `false` at the end.
    pub fn next_pages(&mut self, buffers: &mut Buffers, walk: &mut Walk) -> bool {
        if std::mem::take(&mut walk.is_damaged) {
            self.complain(format!("a damaged page of CPU {} was cut short", self.cpu));
        }
        let has_more = self.refill(buffers);
        if std::mem::take(&mut self.has_gap) {
            // How many events were lost is not known.
            walk.miss(1);
        }
        walk.restart();
        has_more
    }

    /// Reads more pages; `false` at the end.
    fn refill(&mut self, buffers: &mut Buffers) -> bool {
        if let Some(pages) = self.ahead.take() {
            (buffers.unpacked, buffers.is_packed) = (pages, true);
            return true;
        }
        let filled = match self.chunks_left {
            None => {
                let pages = (AT_A_TIME / self.page_size).max(1) * self.page_size;
                let wanted = usize::try_from(self.left()).unwrap_or(usize::MAX).min(pages);
                self.fill(buffers, wanted)
            }
            Some(_) => self.refill_from_chunk(buffers),
        };
        if let Err(error) = filled {
            self.give_up(&error);
            return false;
        }
        !buffers.pages().is_empty()
    }

    /// Unpacks the next chunk that can be; each is packed by itself.
    fn refill_from_chunk(&mut self, buffers: &mut Buffers) -> Result<(), Error> {
        // Bounded by the count of chunks and the file, of which each takes eight bytes.
        while let Some([packed, unpacked]) = self.next_chunk()? {
            let at = self.next;
            self.fill(buffers, packed)?;
            match buffers.unpack(self.packing, unpacked) {
                Ok(()) if unpacked > 0 => return Ok(()),
                Ok(()) => {}
                Err(error) => {
                    let error = Error::malformed("compressed pages", at, error.to_string());
                    self.complaints.add(self.index, at, error.to_string());
                    self.has_gap = true;
                }
            }
        }
        buffers.read(self.file, self.next, 0)
    }

    /// The stamp of the first page left; of packed pages, the latest time there is if none can be
    /// unpacked. `None` if none is left.
    pub fn first_stamp(&mut self, buffers: &mut Buffers) -> Option<u64> {
        if self.chunks_left.is_none() {
            let mut stamp = [0; 8];
            self.check(PAGE_HEADER as u64).ok()?;
            self.file.read_exact_at(&mut stamp, self.next).ok()?;
            return Some(u64::from_le_bytes(stamp));
        }
        let place = (self.next, self.chunks_left, self.read);
        if !self.refill(buffers) {
            return self.has_gap.then_some(u64::MAX);
        }
        let stamp =
            buffers.unpacked.first_chunk::<8>().map_or(0, |stamp| u64::from_le_bytes(*stamp));
        if buffers.unpacked.len() <= LARGEST_AHEAD {
            self.ahead = Some(std::mem::take(&mut buffers.unpacked));
        } else {
            (self.next, self.chunks_left, self.read) = place;
        }
        Some(stamp)
    }

    /// Cuts off what follows the next pages of a size, if anything does.
    pub fn split(&mut self, size: u64) -> Option<Self> {
        let size = if self.chunks_left.is_some() { size * PACKED_STRETCHES } else { size };
        let ahead = self.ahead.take();
        let mut sum = ahead.as_ref().map_or(0, |pages| pages.len() as u64);
        let mut rest = Self { has_gap: false, read: 0, ..self.clone() };
        self.ahead = ahead;
        let Some(count) = self.chunks_left else {
            let pages = (size / self.page_size as u64).max(1);
            rest.next = self.next.checked_add(pages * self.page_size as u64)?;
            (self.end, rest.next) = (self.end.min(rest.next), rest.next.min(rest.end));
            return (rest.left() > 0).then_some(rest);
        };
        while sum < size {
            // What is wrong with a chunk's sizes is found when it is read.
            let Ok(Some([packed, unpacked])) = rest.next_chunk() else { return None };
            if rest.check(packed as u64).is_err() {
                return None;
            }
            rest.next += packed as u64;
            sum = sum.saturating_add(unpacked as u64);
        }
        let left = rest.chunks_left.filter(|left| *left > 0)?;
        (self.end, self.chunks_left) = (rest.next, Some(count - left));
        rest.read = 0;
        Some(rest)
    }

    /// Bytes read since the last call.
    pub fn read_since(&mut self) -> u64 {
        std::mem::take(&mut self.read)
    }
}

//! A stretch of one file's records, packed or not. What is left of a file afterwards is known only
//! then, since records have no marks between them and packed ones are pieces of one stream.

use super::super::buffer::{Buffer, read_up_to};
use super::super::kind::{self, HEADER, header_at};
use super::super::layout::Layouts;
use super::super::record::Break;
use super::super::stream::unpack;
use super::part::{DAMAGED, PARTIAL, Part};
use crate::Error;
use crate::parallel::{Complaints, Stream};
use crate::sink::Sink;
use std::sync::atomic::{AtomicU64, Ordering};
use zstd::stream::raw::Decoder;

/// Bytes in which a record's time is looked for.
const PEEK: usize = 1 << 10;
/// Bytes that are read at least: the longest record. Of packed ones that is enough.
const SMALLEST: usize = 64 << 10;

/// The rest of one file.
pub struct Stretch<'a> {
    layouts: &'a Layouts,
    part: &'a Part,
    complaints: (usize, &'a Complaints),
    progress: &'a AtomicU64,
    /// Bytes that are read at a time, packed or unpacked.
    size: u64,
    at: u64,
    begins_ns: u64,
    packing: Packing,
}

/// What is known of the packed stream.
#[derive(Default)]
struct Packing {
    decoder: Option<Decoder<'static>>,
    /// The beginning of a record that goes on in the next piece.
    begun: Vec<u8>,
}

/// What a thread reads with.
pub struct Buffers {
    buffer: Buffer,
    unpacked: Vec<u8>,
}

impl Default for Buffers {
    fn default() -> Self {
        Self { buffer: Buffer::new(), unpacked: Vec::new() }
    }
}

impl<'a> Stretch<'a> {
    pub fn new(
        layouts: &'a Layouts,
        part: &'a Part,
        complaints: (usize, &'a Complaints),
        progress: &'a AtomicU64,
        size: u64,
    ) -> Self {
        let (at, packing) = (part.start, Packing::default());
        let mut stretch =
            Self { layouts, part, complaints, progress, size, at, begins_ns: 0, packing };
        stretch.peek();
        stretch
    }

    fn complain(&self, what: &str) {
        let (index, complaints) = self.complaints;
        complaints.add(index, self.at, format!("{}: {what}", self.part.name));
    }

    /// Looks at when the next record was made, if it is not packed and says so.
    fn peek(&mut self) {
        let mut bytes = [0; PEEK];
        let read = read_up_to(&self.part.file, &mut bytes, self.at, self.part.end).unwrap_or(0);
        let Some((kind, size)) = header_at(&bytes[..read], 0) else { return };
        let record = &bytes[..size.min(read)];
        self.begins_ns = self.layouts.time_of(kind, record).unwrap_or(0).max(self.begins_ns);
    }

    /// Delivers the records that one reading brings; `false` if there is nothing more.
    fn records<S: Sink>(&mut self, buffers: &mut Buffers, sink: &mut S) -> Result<bool, Error> {
        let Buffers { buffer, unpacked } = buffers;
        let wanted = if self.packing.decoder.is_some() { SMALLEST } else { self.size as usize };
        let space = buffer.room();
        let wanted = wanted.max(SMALLEST).min(space.len());
        let read = read_up_to(&self.part.file, &mut space[..wanted], self.at, self.part.end)?;
        let bytes = &space[..read];
        let begin = self.at;
        let mut at = 0;
        unpacked.clear();
        unpacked.append(&mut self.packing.begun);
        let stopped = loop {
            let rest = bytes.get(at..).unwrap_or_default();
            let walk = self.layouts.walk(rest, rest.len(), sink);
            at = at.saturating_add(walk.at);
            self.at = begin.saturating_add(at as u64);
            if walk.stopped != Some(Break::Compressed) {
                break walk.stopped;
            }
            let Some((kind, size)) = header_at(bytes, at) else { break Some(Break::Partial) };
            let Some(body) = bytes.get(at + HEADER..at + size) else { break Some(Break::Partial) };
            if !self.piece(kind, body, unpacked, sink)? {
                return Ok(false);
            }
            at += size;
            self.at = begin + at as u64;
        };
        let walked = self.at.min(self.part.end).saturating_sub(begin);
        self.progress.fetch_add(walked, Ordering::Relaxed);
        self.packing.begun = unpacked.to_vec();
        match stopped {
            // What was read is at least as long as the longest record, unless the file ends.
            Some(Break::Partial) if at == 0 => self.complain(PARTIAL),
            Some(Break::Damaged) => self.complain(DAMAGED),
            _ if read == 0 && !unpacked.is_empty() => self.complain(PARTIAL),
            _ => return Ok(read > 0),
        }
        Ok(false)
    }

    /// Delivers what a packed record holds; `false` if it is damaged.
    fn piece<S: Sink>(
        &mut self,
        kind: u32,
        body: &[u8],
        unpacked: &mut Vec<u8>,
        sink: &mut S,
    ) -> Result<bool, Error> {
        let decoder = match &mut self.packing.decoder {
            Some(decoder) => decoder,
            None => self.packing.decoder.insert(Decoder::new()?),
        };
        if let Err(error) = unpack(decoder, packed(kind, body), unpacked) {
            self.complain(&format!("a compressed record is damaged ({error})"));
            return Ok(false);
        }
        let walk = self.layouts.walk(unpacked, unpacked.len(), sink);
        if matches!(walk.stopped, Some(Break::Damaged | Break::Compressed)) {
            self.complain(DAMAGED);
            return Ok(false);
        }
        self.begins_ns = self.latest_ns(unpacked).unwrap_or(0).max(self.begins_ns);
        unpacked.drain(..walk.at.min(unpacked.len()));
        Ok(true)
    }

    /// Of the last sample.
    fn latest_ns(&self, records: &[u8]) -> Option<u64> {
        let (mut at, mut last) = (0, None);
        while let Some((kind, size)) = header_at(records, at).filter(|(_, size)| *size >= HEADER) {
            last = if kind == kind::SAMPLE { records.get(at..at + size).or(last) } else { last };
            at += size;
        }
        self.layouts.time_of(kind::SAMPLE, last?)
    }
}

impl Stream for Stretch<'_> {
    type Buffers = Buffers;

    fn begins_ns(&self) -> u64 {
        self.begins_ns
    }

    fn split(&mut self, _: &mut Buffers) -> Result<Option<Self>, Error> {
        Ok(None)
    }

    fn read<S: Sink>(mut self, buffers: &mut Buffers, sink: &mut S) -> Result<Option<Self>, Error> {
        if !self.records(buffers, sink)? {
            return Ok(None);
        }
        if self.packing.decoder.is_none() {
            self.peek();
        }
        Ok(Some(self))
    }
}

/// What a packed record holds.
pub fn packed(kind: u32, body: &[u8]) -> &[u8] {
    if kind != kind::COMPRESSED2 {
        return body;
    }
    // Says how much of it is data; the rest is padding.
    let (length, rest) = body.split_at(body.len().min(8));
    let length = length.try_into().map_or(0, u64::from_le_bytes);
    rest.get(..usize::try_from(length).unwrap_or(usize::MAX)).unwrap_or_default()
}

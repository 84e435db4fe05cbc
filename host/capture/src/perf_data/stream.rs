//! Records one after the other: from a pipe, or compressed in a file.
//!
//! In a pipe the header's contents are records too. Compressed records are one zstd stream cut
//! into pieces, of which a piece may end in the middle of a record.

use super::attribute::Attribute;
use super::header::{Features, Header};
use super::kind::{self, HEADER, header_at};
use super::layout::Layouts;
use super::record::Break;
use crate::Error;
use crate::sink::{Origin, Sink};
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// Bytes of a pipe's own header.
const PIPE_HEADER: usize = 16;
/// The largest payload that may follow a record: formats of a whole kernel.
const LARGEST_PAYLOAD: usize = 256 << 20;
/// What a record of 64 KiB may unpack to: perf packs at most one buffer of a CPU at a time.
const LARGEST_UNPACKED: usize = 64 << 20;
const BUFFER: usize = 1 << 20;

/// Reads a pipe, or the records of a file whose header is known, into a sink.
pub fn read_stream<S: Sink>(
    input: &mut dyn Read,
    header: Option<Header>,
    stop: &AtomicBool,
    progress: &AtomicU64,
    sink: &mut S,
) -> Result<Origin, Error> {
    let is_pipe = header.is_none();
    let mut stream = Stream {
        input,
        buffer: Vec::with_capacity(BUFFER),
        at: 0,
        offset: 0,
        is_ended: false,
        attributes: Vec::new(),
        features: Features::default(),
        origin: Origin { format: "perf.data pipe".into(), ..Origin::default() },
        layouts: None,
        unpacked: Vec::new(),
        decoder: None,
        progress,
    };
    if let Some(header) = header {
        (stream.layouts, stream.origin) = (Some(header.layouts), header.origin);
    }
    if is_pipe {
        stream.fill(PIPE_HEADER)?;
        stream.at = PIPE_HEADER;
    }
    while !stop.load(Ordering::Relaxed) {
        if !stream.record(sink)? {
            break;
        }
    }
    Ok(stream.finish())
}

struct Stream<'a> {
    input: &'a mut dyn Read,
    buffer: Vec<u8>,
    /// Walked so far in the buffer, and the buffer's own place in the stream.
    at: usize,
    offset: u64,
    is_ended: bool,
    attributes: Vec<Attribute>,
    features: Features,
    origin: Origin,
    layouts: Option<Layouts>,
    /// Decompressed bytes, of which the last record may not be whole.
    unpacked: Vec<u8>,
    decoder: Option<Decoder<'static>>,
    progress: &'a AtomicU64,
}

impl Stream<'_> {
    /// Makes this many bytes available from `at` on; `false` if the stream ends before.
    fn fill(&mut self, wanted: usize) -> Result<bool, Error> {
        if self.at > BUFFER {
            self.buffer.drain(..self.at);
            self.offset += self.at as u64;
            self.at = 0;
        }
        while self.buffer.len() - self.at < wanted && !self.is_ended {
            let start = self.buffer.len();
            self.buffer.resize(start + BUFFER / 4, 0);
            let read = loop {
                match self.input.read(&mut self.buffer[start..]) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    other => break other?,
                }
            };
            self.buffer.truncate(start + read);
            self.is_ended = read == 0;
            self.progress.fetch_add(read as u64, Ordering::Relaxed);
        }
        Ok(self.buffer.len() - self.at >= wanted)
    }

    fn warn(&mut self, what: impl std::fmt::Display) {
        let at = self.offset + self.at as u64;
        self.origin.warnings.push(format!("{what} at offset {at:#x}: the rest is left out"));
    }

    /// Handles one record, or as many plain ones as are there; `false` at the end.
    fn record<S: Sink>(&mut self, sink: &mut S) -> Result<bool, Error> {
        if !self.fill(HEADER)? {
            if self.buffer.len() > self.at {
                self.warn("the last record breaks off");
            }
            return Ok(false);
        }
        let Some((kind, size)) = header_at(&self.buffer, self.at) else { return Ok(false) };
        if size < HEADER {
            self.warn("a damaged record");
            return Ok(false);
        }
        if !self.fill(size)? {
            self.warn("the last record breaks off");
            return Ok(false);
        }
        let record = self.at..self.at + size;
        match kind {
            kind::HEADER_ATTR => {
                let parsed = parse_attribute(&self.buffer[record]);
                match parsed {
                    Ok(attribute) => self.attributes.push(attribute),
                    Err(error) => self.origin.warnings.push(error.to_string()),
                }
            }
            kind::HEADER_FEATURE => {
                let bytes = &self.buffer[record];
                let number = bytes.get(8..16).and_then(|word| word.try_into().ok());
                let number = number.map_or(0, u64::from_le_bytes);
                let rest = bytes.get(16..).unwrap_or_default();
                self.features.take(number as u32, rest, &mut self.origin);
            }
            kind::TRACING_DATA => return self.tracing_data(size),
            kind::AUXTRACE => {
                let payload = word(&self.buffer[record], 8);
                return self.skip(size, payload);
            }
            kind::COMPRESSED | kind::COMPRESSED2 => {
                self.at += size;
                return self.compressed(record, kind, sink);
            }
            _ => {
                self.prepare()?;
                // All records that are whole in the buffer at once.
                let Some(layouts) = &self.layouts else { return Ok(false) };
                let walk =
                    layouts.walk(&self.buffer[self.at..], plain(&self.buffer, self.at), sink);
                self.at += walk.at;
                if walk.stopped == Some(Break::Damaged) {
                    self.warn("a damaged record");
                    return Ok(false);
                }
                return Ok(true);
            }
        }
        self.at += size;
        Ok(true)
    }

    /// Event formats follow their record and are padded to eight bytes.
    fn tracing_data(&mut self, size: usize) -> Result<bool, Error> {
        let length = word(&self.buffer[self.at..], 8) as u32 as usize;
        let padded = length.next_multiple_of(8);
        if length > LARGEST_PAYLOAD || !self.fill(size + padded)? {
            self.warn("event formats break off");
            return Ok(false);
        }
        let start = self.at + size;
        let bytes = self.buffer[start..start + length].to_vec();
        self.features.take(super::header::feature::TRACING_DATA, &bytes, &mut self.origin);
        self.at = start + padded;
        Ok(true)
    }

    fn skip(&mut self, size: usize, payload: u64) -> Result<bool, Error> {
        self.at += size;
        let mut left = payload;
        while left > 0 {
            if !self.fill(1)? {
                return Ok(false);
            }
            let step = left.min((self.buffer.len() - self.at) as u64);
            self.at += step as usize;
            left -= step;
        }
        Ok(true)
    }

    /// Works out the layouts once all attributes of a pipe have been seen.
    fn prepare(&mut self) -> Result<(), Error> {
        if self.layouts.is_none() {
            for (attribute, (_, name)) in self.attributes.iter_mut().zip(&self.features.names) {
                attribute.name = Some(name.clone());
            }
            let formats = self.features.formats.as_ref();
            let (mut layouts, warnings) = Layouts::new(&self.attributes, formats)?;
            layouts.learn(&self.buffer[self.at..]);
            self.origin.warnings.extend(warnings);
            self.origin.inhibit_print_format = self.features.inhibit_print_format();
            self.origin.events = self.features.event_names(&self.attributes);
            self.layouts = Some(layouts);
        }
        Ok(())
    }

    fn compressed<S: Sink>(
        &mut self,
        record: std::ops::Range<usize>,
        kind: u32,
        sink: &mut S,
    ) -> Result<bool, Error> {
        self.prepare()?;
        let bytes = &self.buffer[record];
        // The newer kind says how much of it is data; the rest is padding.
        let payload = if kind == kind::COMPRESSED2 {
            let length = usize::try_from(word(bytes, 8)).unwrap_or(usize::MAX);
            bytes.get(16..16usize.saturating_add(length)).unwrap_or_default()
        } else {
            &bytes[HEADER..]
        };
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            None => self.decoder.insert(Decoder::new()?),
        };
        if let Err(error) = unpack(decoder, payload, &mut self.unpacked) {
            self.warn(format!("a compressed record is damaged ({error})"));
            return Ok(false);
        }
        let Some(layouts) = &self.layouts else { return Ok(false) };
        let walk = layouts.walk(&self.unpacked, self.unpacked.len(), sink);
        self.unpacked.drain(..walk.at.min(self.unpacked.len()));
        if matches!(walk.stopped, Some(Break::Damaged | Break::Compressed)) {
            self.warn("a damaged record inside compressed ones");
            return Ok(false);
        }
        Ok(true)
    }

    fn finish(mut self) -> Origin {
        self.origin.bytes = self.offset + self.at as u64;
        if !self.unpacked.is_empty() {
            let left = self.unpacked.len();
            self.origin.warnings.push(format!("{left} bytes of a last record are not whole"));
        }
        self.origin
    }
}

/// Bytes from `at` on that hold whole records a plain walk can take.
fn plain(buffer: &[u8], mut at: usize) -> usize {
    let start = at;
    while let Some((kind, size)) = header_at(buffer, at) {
        let is_special = matches!(
            kind,
            kind::HEADER_ATTR
                | kind::HEADER_FEATURE
                | kind::TRACING_DATA
                | kind::AUXTRACE
                | kind::COMPRESSED
                | kind::COMPRESSED2
        );
        if is_special || size < HEADER || at + size > buffer.len() {
            break;
        }
        at += size;
    }
    at - start
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Appends what a piece of a compressed stream holds.
pub fn unpack(
    decoder: &mut Decoder<'static>,
    payload: &[u8],
    unpacked: &mut Vec<u8>,
) -> std::io::Result<()> {
    let mut input = InBuffer::around(payload);
    let mut piece = vec![0; BUFFER / 4];
    loop {
        let mut output = OutBuffer::around(&mut piece[..]);
        decoder.run(&mut input, &mut output)?;
        let written = output.pos();
        unpacked.extend_from_slice(&piece[..written]);
        if unpacked.len() > LARGEST_UNPACKED {
            return Err(std::io::Error::other("64 KiB that unpack to more than can be"));
        }
        // Ends when the input is used up and the decoder holds nothing back.
        if written < piece.len() && input.pos() == payload.len() {
            return Ok(());
        }
        if written == 0 && input.pos() < payload.len() {
            return Err(std::io::Error::other("the stream does not go on"));
        }
    }
}

fn parse_attribute(record: &[u8]) -> Result<Attribute, Error> {
    let body = &record[HEADER..];
    let (mut attribute, size) = Attribute::parse(body)?;
    let ids = body.get(size..).unwrap_or_default();
    attribute.ids = ids
        .chunks_exact(8)
        .filter_map(|id| Some(u64::from_le_bytes(id.try_into().ok()?)))
        .collect();
    Ok(attribute)
}

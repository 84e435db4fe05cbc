//! All files read by one thread, always on from the one whose next record is the earliest.

use super::super::kind::{self, HEADER, header_at};
use super::super::layout::Layouts;
use super::super::stream::unpack;
use super::part::{DAMAGED, PARTIAL, Part};
use super::stretch::packed;
use crate::Error;
use crate::parallel::STOPPED;
use crate::reading::fill;
use crate::sink::Sink;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use zstd::stream::raw::Decoder;

const BUFFER: usize = 128 << 10;

pub fn read<S: Sink>(
    layouts: &Layouts,
    parts: &[Part],
    stop: &AtomicBool,
    progress: &AtomicU64,
    sink: &mut S,
) -> Result<Vec<String>, Error> {
    let mut warnings = Vec::new();
    let mut files: Vec<Records<'_>> = parts.iter().map(Records::new).collect();
    let mut heap = BinaryHeap::new();
    for (index, records) in files.iter_mut().enumerate() {
        heap.extend(records.next(layouts, progress)?.map(|time| Reverse((time, index))));
    }
    while let Some(Reverse((_, index))) = heap.pop() {
        if stop.load(Ordering::Relaxed) {
            warnings.push(STOPPED.into());
            break;
        }
        let records = &mut files[index];
        let record = records.record();
        layouts.walk(record, record.len(), sink);
        heap.extend(records.next(layouts, progress)?.map(|time| Reverse((time, index))));
    }
    warnings.extend(files.into_iter().filter_map(|records| records.warning));
    Ok(warnings)
}

/// Bytes of a file from one place to another.
struct Section<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl Read for Section<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let wanted = left.min(buffer.len());
        let read = self.file.read_at(&mut buffer[..wanted], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// The records of one file, one after the other.
struct Records<'a> {
    name: &'a str,
    input: BufReader<Section<'a>>,
    /// Records that are not compressed, or no longer, and where the latest begins and ends.
    plain: Vec<u8>,
    latest: (usize, usize),
    /// Of the latest record that has one.
    time_ns: u64,
    decoder: Option<Decoder<'static>>,
    warning: Option<String>,
}

impl<'a> Records<'a> {
    fn new(part: &'a Part) -> Self {
        let section = Section { file: &part.file, at: part.start, end: part.end };
        Self {
            name: &part.name,
            input: BufReader::with_capacity(BUFFER, section),
            plain: Vec::new(),
            latest: (0, 0),
            time_ns: 0,
            decoder: None,
            warning: None,
        }
    }

    fn record(&self) -> &[u8] {
        self.plain.get(self.latest.0..self.latest.1).unwrap_or_default()
    }

    /// Goes to the next record and gives its time; `None` at the end of the file.
    fn next(&mut self, layouts: &Layouts, progress: &AtomicU64) -> Result<Option<u64>, Error> {
        self.latest.0 = self.latest.1;
        loop {
            let at = self.latest.0;
            if let Some((kind, size)) = header_at(&self.plain, at) {
                if size < HEADER {
                    self.broken(DAMAGED);
                    return Ok(None);
                }
                if let Some(record) = self.plain.get(at..at + size) {
                    self.time_ns = layouts.time_of(kind, record).unwrap_or(self.time_ns);
                    self.latest.1 = at + size;
                    return Ok(Some(self.time_ns));
                }
            }
            self.plain.drain(..at);
            self.latest = (0, 0);
            if !self.take(progress)? {
                if !self.plain.is_empty() {
                    self.broken(PARTIAL);
                }
                return Ok(None);
            }
        }
    }

    /// Takes one record of the file, unpacked if it is compressed; `false` at the end.
    fn take(&mut self, progress: &AtomicU64) -> Result<bool, Error> {
        let mut header = [0; HEADER];
        if fill(&mut self.input, &mut header)? < HEADER {
            return Ok(false);
        }
        let Some((kind, size)) = header_at(&header, 0).filter(|(_, size)| *size >= HEADER) else {
            self.broken(DAMAGED);
            return Ok(false);
        };
        let mut body = vec![0; size - HEADER];
        let filled = fill(&mut self.input, &mut body)?;
        progress.fetch_add(size as u64, Ordering::Relaxed);
        if filled < body.len() {
            self.broken(PARTIAL);
            return Ok(false);
        }
        let payload = match kind {
            kind::COMPRESSED | kind::COMPRESSED2 => packed(kind, &body),
            _ => {
                self.plain.extend(header);
                self.plain.extend(body);
                return Ok(true);
            }
        };
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            None => self.decoder.insert(Decoder::new()?),
        };
        if let Err(error) = unpack(decoder, payload, &mut self.plain) {
            self.broken(&format!("a compressed record is damaged ({error})"));
            return Ok(false);
        }
        Ok(true)
    }

    fn broken(&mut self, what: &str) {
        if self.warning.is_none() {
            self.warning = Some(format!("{}: {what}", self.name));
        }
    }
}

//! What `perf record --threads` leaves: a directory with a file that has the header, and one of
//! nothing but records for each thread of the recorder, compressed or not.
//! [PERF "perf.data directory format"]
//!
//! A recorder's thread serves one CPU unless it was told otherwise, so each file is in the order of
//! time, and there are no marks of rounds. The files are read side by side, and always the one
//! whose next record is the earliest is read on.

use super::header::Header;
use super::layout::{HEADER, Layouts};
use super::record::{header_at, kind};
use super::stream::unpack;
use crate::Error;
use crate::sink::{Origin, Sink};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Take};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use zstd::stream::raw::Decoder;

/// Name of the file with the header; the others have a number behind it.
const HEADER_FILE: &str = "data";
const MOST_FILES: usize = 1 << 16;
const BUFFER: usize = 128 << 10;

/// The opened files of a directory.
#[derive(Debug)]
pub struct Directory {
    header: File,
    /// Name, file and length.
    parts: Vec<(String, File, u64)>,
    /// Of all files.
    length: u64,
}

impl Directory {
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::File { path, source }
        };
        let header = path.join(HEADER_FILE);
        if !header.is_file() {
            return Err(Error::Unsupported(format!(
                "{} is a directory without the file {HEADER_FILE} that perf record --threads \
                 writes",
                path.display()
            )));
        }
        let mut numbers: Vec<u32> = std::fs::read_dir(path)
            .map_err(failed(path))?
            .filter_map(|entry| {
                let name = entry.ok()?.file_name();
                name.to_str()?.strip_prefix(HEADER_FILE)?.strip_prefix('.')?.parse().ok()
            })
            .collect();
        numbers.sort_unstable();
        let mut parts = Vec::new();
        for number in numbers.into_iter().take(MOST_FILES) {
            let name = format!("{HEADER_FILE}.{number}");
            let path = path.join(&name);
            let file = File::open(&path).map_err(failed(&path))?;
            let length = file.metadata().map_err(failed(&path))?.len();
            parts.push((name, file, length));
        }
        let header_file = File::open(&header).map_err(failed(&header))?;
        let own = header_file.metadata().map_err(failed(&header))?.len();
        let length = parts.iter().fold(own, |sum, part| sum.saturating_add(part.2));
        Ok(Self { header: header_file, parts, length })
    }

    pub const fn length(&self) -> u64 {
        self.length
    }

    /// Reads all files into a sink, which has to put threads in order that moved between CPUs of
    /// one file.
    pub fn read<S: Sink>(
        self,
        stop: &AtomicBool,
        progress: &AtomicU64,
        sink: &mut S,
    ) -> Result<Origin, Error> {
        let Self { mut header, parts, length } = self;
        let own = header.metadata()?.len();
        let Header { layouts, mut origin, data, .. } = Header::read_of_directory(&header, own)?;
        origin.format = "perf.data directory".into();
        origin.bytes = length;
        header.seek(SeekFrom::Start(data.start))?;
        // What the header's own file holds was put together by perf before and after recording.
        let first = (HEADER_FILE.to_owned(), header, data.end - data.start);
        let mut files: Vec<Records> = std::iter::once(first)
            .chain(parts)
            .map(|(name, file, length)| Records::new(name, file, length))
            .collect();
        let mut heap = BinaryHeap::new();
        for (index, records) in files.iter_mut().enumerate() {
            heap.extend(records.next(&layouts, progress)?.map(|time| Reverse((time, index))));
        }
        while let Some(Reverse((_, index))) = heap.pop() {
            if stop.load(Ordering::Relaxed) {
                origin.warnings.push("stopped on request: the rest was not read".into());
                break;
            }
            let records = &mut files[index];
            let record = records.record();
            layouts.walk(record, record.len(), sink);
            heap.extend(records.next(&layouts, progress)?.map(|time| Reverse((time, index))));
        }
        origin.warnings.extend(files.into_iter().filter_map(|records| records.warning));
        Ok(origin)
    }
}

/// The records of one file, one after the other.
struct Records {
    name: String,
    input: BufReader<Take<File>>,
    /// Records that are not compressed, or no longer, and where the latest begins and ends.
    plain: Vec<u8>,
    latest: (usize, usize),
    /// Of the latest record that has one.
    time_ns: u64,
    decoder: Option<Decoder<'static>>,
    warning: Option<String>,
}

impl Records {
    fn new(name: String, file: File, length: u64) -> Self {
        Self {
            name,
            input: BufReader::with_capacity(BUFFER, file.take(length)),
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
                    self.broken("a damaged record: the rest is left out");
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
                    self.broken("the last record breaks off");
                }
                return Ok(None);
            }
        }
    }

    /// Takes one record of the file, unpacked if it is compressed; `false` at the end.
    fn take(&mut self, progress: &AtomicU64) -> Result<bool, Error> {
        let mut header = [0; HEADER];
        if self.fill(&mut header)? < HEADER {
            return Ok(false);
        }
        let Some((kind, size)) = header_at(&header, 0).filter(|(_, size)| *size >= HEADER) else {
            self.broken("a damaged record: the rest is left out");
            return Ok(false);
        };
        let mut body = vec![0; size - HEADER];
        let filled = self.fill(&mut body)?;
        progress.fetch_add(size as u64, Ordering::Relaxed);
        if filled < body.len() {
            self.broken("the last record breaks off");
            return Ok(false);
        }
        let payload = match kind {
            kind::COMPRESSED => &body[..],
            // Says how much of it is data; the rest is padding.
            kind::COMPRESSED2 => {
                let (length, rest) = body.split_at(body.len().min(8));
                let length = length.try_into().map_or(0, u64::from_le_bytes);
                rest.get(..usize::try_from(length).unwrap_or(usize::MAX)).unwrap_or_default()
            }
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

    fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, Error> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.input.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(filled)
    }

    fn broken(&mut self, what: &str) {
        if self.warning.is_none() {
            self.warning = Some(format!("{}: {what}", self.name));
        }
    }
}

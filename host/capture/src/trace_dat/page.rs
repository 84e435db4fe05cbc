//! Ring-buffer pages of one CPU. [TRACECMD "BUFFER FLYRECORD"], Linux `ring_buffer.h`.

use super::CpuData;
use super::compression::Compression;
use crate::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Time stamp and commit word in front of a page's events.
const PAGE_HEADER: usize = 16;
/// Flags in the commit word: events were dropped before this page; their number follows the data.
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
const COMMIT_MASK: u64 = 0xf_ffff;
/// Time stamps in events are 59 bits wide; the rest comes from the page.
const STAMP_BITS: u32 = 59;

/// Walks the events of one CPU in order.
pub struct CpuStream<'a> {
    file: &'a File,
    pub cpu: u32,
    page_size: usize,
    /// Where to read on, and the end of this CPU's data.
    next: u64,
    end: u64,
    /// How pages are packed, and how many chunks of them are left.
    packing: Compression,
    chunks_left: Option<u32>,
    /// Pages read and not yet walked.
    pages: Vec<u8>,
    page_start: usize,
    at: usize,
    page_end: usize,
    time: u64,
    record: (usize, usize),
    missed: Option<u64>,
    read: u64,
    broken: Option<String>,
}

impl<'a> CpuStream<'a> {
    pub fn new(
        file: &'a File,
        data: CpuData,
        page_size: usize,
        packing: Option<Compression>,
        length: u64,
    ) -> Result<Self, Error> {
        let end = data.offset.saturating_add(data.size).min(length);
        let mut stream = Self {
            file,
            cpu: data.cpu,
            page_size,
            next: data.offset.min(length),
            end,
            packing: packing.unwrap_or_default(),
            chunks_left: None,
            pages: Vec::new(),
            page_start: 0,
            at: 0,
            page_end: 0,
            time: 0,
            record: (0, 0),
            missed: None,
            read: 0,
            broken: None,
        };
        if data.size > end - stream.next {
            stream.broken = Some(format!("the data of CPU {} breaks off", data.cpu));
        }
        if packing.is_some() && stream.next < end {
            // The size leaves out the count of chunks, which bounds what is read.
            stream.end = end.saturating_add(4).min(length);
            let count = stream.take_bytes(4)?;
            stream.chunks_left = Some(u32::from_le_bytes([count[0], count[1], count[2], count[3]]));
        }
        Ok(stream)
    }

    fn take_bytes(&mut self, size: usize) -> Result<Vec<u8>, Error> {
        if (self.end - self.next) < size as u64 {
            return Err(Error::malformed(
                "pages of a CPU",
                self.next,
                format!("{size} bytes are announced and {} are there", self.end - self.next),
            ));
        }
        let mut bytes = vec![0; size];
        self.file.read_exact_at(&mut bytes, self.next)?;
        self.next += size as u64;
        self.read += size as u64;
        Ok(bytes)
    }

    /// Reads more pages; `false` at the end.
    fn refill(&mut self) -> bool {
        const PAGES_AT_A_TIME: usize = 64;
        let result = match self.chunks_left {
            None => {
                let left = usize::try_from(self.end - self.next).unwrap_or(usize::MAX);
                let wanted = left.min(self.page_size * PAGES_AT_A_TIME);
                self.take_bytes(wanted)
            }
            Some(0) => Ok(Vec::new()),
            Some(count) => {
                self.chunks_left = Some(count - 1);
                self.unpack_chunk()
            }
        };
        match result {
            Ok(pages) => self.pages = pages,
            Err(error) => {
                self.broken = Some(error.to_string());
                self.pages = Vec::new();
                self.next = self.end;
                self.chunks_left = self.chunks_left.map(|_| 0);
            }
        }
        (self.page_start, self.at, self.page_end) = (0, 0, 0);
        !self.pages.is_empty()
    }

    fn unpack_chunk(&mut self) -> Result<Vec<u8>, Error> {
        let head = self.take_bytes(8)?;
        let packed = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let unpacked = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let at = self.next;
        let packed = self.take_bytes(packed)?;
        self.packing
            .unpack(&packed, unpacked)
            .map_err(|error| Error::malformed("compressed pages", at, error.to_string()))
    }

    fn word(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.pages.get(at..at.checked_add(4)?)?.try_into().ok()?))
    }

    /// Opens the page at `page_start`; `false` if it is not whole.
    fn open_page(&mut self) -> bool {
        let Some(page) = self.pages.get(self.page_start..self.page_start + PAGE_HEADER) else {
            return false;
        };
        let mut header = [0; PAGE_HEADER];
        header.copy_from_slice(page);
        let (stamp, commit) = header.split_at(8);
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or([0; 8]));
        self.time = word(stamp);
        let commit = word(commit);
        let size = (commit & COMMIT_MASK) as usize;
        self.at = self.page_start + PAGE_HEADER;
        self.page_end =
            (self.at + size).min(self.page_start + self.page_size).min(self.pages.len());
        if commit & MISSED != 0 {
            let stored = if commit & MISSED_STORED != 0 { self.word(self.page_end) } else { None };
            self.missed = Some(u64::from(stored.unwrap_or(1)));
        }
        true
    }

    /// Goes to the next event and gives its time; `None` at the end.
    pub fn next_time(&mut self) -> Option<u64> {
        // Bounded by the file: each turn consumes an event, a page or a chunk.
        loop {
            while self.at < self.page_end {
                if self.step() {
                    return Some(self.time);
                }
            }
            let next_page = if self.page_end == 0 { 0 } else { self.page_start + self.page_size };
            if next_page < self.pages.len() {
                self.page_start = next_page;
                if self.open_page() {
                    continue;
                }
            }
            if !self.refill() {
                return None;
            }
        }
    }

    /// Takes one entry of the page; `true` if it is an event.
    fn step(&mut self) -> bool {
        let Some(head) = self.word(self.at) else {
            self.at = self.page_end;
            return false;
        };
        let (kind, delta) = (head & 31, u64::from(head >> 5));
        let second = self.word(self.at + 4);
        match (kind, second) {
            (29, _) if delta == 0 => self.at = self.page_end,
            (29, Some(length)) => {
                self.time = self.time.wrapping_add(delta);
                self.at =
                    self.at.saturating_add(4).saturating_add(length as usize).max(self.at + 8);
            }
            (30, Some(high)) => {
                self.time = self.time.wrapping_add(delta + (u64::from(high) << 27));
                self.at += 8;
            }
            (31, Some(high)) => {
                let low = delta | u64::from(high) << 27;
                self.time = self.time >> STAMP_BITS << STAMP_BITS | low;
                self.at += 8;
            }
            (0, Some(length)) => {
                self.time = self.time.wrapping_add(delta);
                let length = (length as usize).max(4);
                return self.event(self.at + 8, length - 4);
            }
            (1..=28, _) => {
                self.time = self.time.wrapping_add(delta);
                return self.event(self.at + 4, kind as usize * 4);
            }
            _ => self.at = self.page_end,
        }
        false
    }

    fn event(&mut self, start: usize, length: usize) -> bool {
        let end = start.saturating_add(length);
        if end > self.page_end {
            self.at = self.page_end;
            self.broken = Some(format!("a damaged page of CPU {} was cut short", self.cpu));
            return false;
        }
        self.record = (start, end);
        self.at = end.next_multiple_of(4);
        true
    }

    /// The raw record of the event that `next_time` went to.
    pub fn record(&self) -> &[u8] {
        self.pages.get(self.record.0..self.record.1).unwrap_or_default()
    }

    pub fn take_missed(&mut self) -> Option<u64> {
        self.missed.take()
    }

    /// Bytes read since the last call.
    pub fn read_since(&mut self) -> u64 {
        std::mem::take(&mut self.read)
    }

    pub fn warning(&self) -> Option<String> {
        self.broken.clone()
    }
}

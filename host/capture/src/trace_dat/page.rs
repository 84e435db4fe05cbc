//! Ring-buffer pages of one CPU. [TRACECMD "BUFFER FLYRECORD"], Linux `ring_buffer.h`.

/// Time stamp and commit word in front of a page's events.
pub const PAGE_HEADER: usize = 16;
/// Flags in the commit word: events were dropped before this page; their number follows the data.
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
const COMMIT_MASK: u64 = 0xf_ffff;
/// Time stamps in events are 59 bits wide; the rest comes from the page.
const STAMP_BITS: u32 = 59;

/// Goes through the events of pages, one after the other.
#[derive(Clone, Debug)]
pub struct Walk {
    page_size: usize,
    next_page: usize,
    at: usize,
    end: usize,
    /// Of the latest event or page.
    pub time: u64,
    /// Events that were lost before the next one.
    pub missed: Option<u64>,
    /// A page held less than it said.
    pub is_damaged: bool,
}

#[inline(always)]
fn word(pages: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(pages.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

impl Walk {
    pub const fn new(page_size: usize) -> Self {
        Self { page_size, next_page: 0, at: 0, end: 0, time: 0, missed: None, is_damaged: false }
    }

    /// Starts over with other pages.
    pub fn restart(&mut self) {
        (self.next_page, self.at, self.end) = (0, 0, 0);
    }

    /// Where the raw record of the next event begins and ends; `None` at the end of the pages.
    #[inline(always)]
    pub fn next(&mut self, pages: &[u8]) -> Option<(usize, usize)> {
        // Bounded by the pages: each turn consumes an entry or a page.
        loop {
            while self.at < self.end {
                if let Some(record) = self.step(pages) {
                    return Some(record);
                }
            }
            if !self.open_page(pages) {
                return None;
            }
        }
    }

    /// Events were lost before the next one.
    pub fn miss(&mut self, events: u64) {
        self.missed = Some(self.missed.unwrap_or(0).saturating_add(events));
    }

    /// Opens the next page; `false` if there is none that has a header.
    fn open_page(&mut self, pages: &[u8]) -> bool {
        let start = self.next_page;
        let header = pages.get(start..).and_then(<[u8]>::first_chunk::<PAGE_HEADER>);
        let Some(header) = header else { return false };
        let [time, commit] = [0, 8].map(|at| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&header[at..at + 8]);
            u64::from_le_bytes(bytes)
        });
        self.time = time;
        self.next_page = start + self.page_size;
        self.at = start + PAGE_HEADER;
        let size = (commit & COMMIT_MASK) as usize;
        self.end = (self.at + size).min(self.next_page).min(pages.len());
        if commit & MISSED != 0 {
            let is_stored = commit & MISSED_STORED != 0 && self.end + 4 <= self.next_page;
            let stored = if is_stored { word(pages, self.end) } else { None };
            self.miss(u64::from(stored.unwrap_or(1)));
        }
        true
    }

    /// Takes one entry of the page, which may be an event.
    #[inline(always)]
    fn step(&mut self, pages: &[u8]) -> Option<(usize, usize)> {
        let Some(head) = word(pages, self.at) else {
            self.at = self.end;
            return None;
        };
        let (kind, delta) = (head & 31, u64::from(head >> 5));
        if let 1..=28 = kind {
            self.time = self.time.wrapping_add(delta);
            return self.event(self.at + 4, kind as usize * 4);
        }
        match (kind, word(pages, self.at + 4)) {
            (29, _) if delta == 0 => self.at = self.end,
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
            _ => self.at = self.end,
        }
        None
    }

    #[inline(always)]
    fn event(&mut self, start: usize, length: usize) -> Option<(usize, usize)> {
        let end = start.saturating_add(length);
        if end > self.end {
            self.at = self.end;
            self.is_damaged = true;
            return None;
        }
        self.at = end.next_multiple_of(4);
        Some((start, end))
    }
}

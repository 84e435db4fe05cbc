//! A stretch of one CPU's pages, read by itself: pages need nothing of those before.

use super::Recording;
use super::delivery::Delivery;
use super::page::Walk;
use super::source::{Buffers, Source};
use crate::Error;
use crate::parallel::Stream;
use crate::sink::Sink;
use std::sync::atomic::{AtomicU64, Ordering};

/// The rest of one CPU's pages.
pub struct Stretch<'a> {
    recording: &'a Recording,
    progress: &'a AtomicU64,
    source: Source<'a>,
    /// Bytes of pages that are read at a time.
    size: u64,
    begins_ns: u64,
}

impl<'a> Stretch<'a> {
    /// `None` if no pages are left.
    pub fn new(
        recording: &'a Recording,
        progress: &'a AtomicU64,
        mut source: Source<'a>,
        size: u64,
        buffers: &mut Buffers,
    ) -> Option<Self> {
        let begins_ns = recording.front.clock.to_ns(source.first_stamp(buffers)?);
        Some(Self { recording, progress, source, size, begins_ns })
    }
}

impl Stream for Stretch<'_> {
    type Buffers = Buffers;

    fn begins_ns(&self) -> u64 {
        self.begins_ns
    }

    fn split(&mut self, buffers: &mut Buffers) -> Result<Option<Self>, Error> {
        let Self { recording, progress, size, .. } = *self;
        let rest = self.source.split(size);
        Ok(rest.and_then(|source| Self::new(recording, progress, source, size, buffers)))
    }

    fn read<S: Sink>(self, buffers: &mut Buffers, sink: &mut S) -> Result<Option<Self>, Error> {
        let Self { recording, mut source, begins_ns, .. } = self;
        let clock = recording.front.clock;
        let (decoders, cpu) = (&recording.decoders, source.cpu);
        let mut delivery = Delivery { decoders, cpu, sink, departure: None };
        let mut walk = Walk::new(source.page_size);
        let mut latest_ns = begins_ns;
        while source.next_pages(buffers, &mut walk) {
            self.progress.fetch_add(source.read_since(), Ordering::Relaxed);
            let pages = buffers.pages();
            while let Some((start, end)) = walk.next(pages) {
                latest_ns = clock.to_ns(walk.time);
                if let Some(missed) = walk.missed.take() {
                    delivery.lost(latest_ns, missed);
                }
                delivery.take(pages.get(start..end).unwrap_or_default(), latest_ns);
            }
        }
        delivery.flush();
        if let Some(missed) = walk.missed {
            // Behind the last event, before the next stretch.
            delivery.lost(latest_ns.saturating_add(1), missed);
        }
        Ok(None)
    }
}

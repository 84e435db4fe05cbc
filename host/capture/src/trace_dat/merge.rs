//! All CPUs read by one thread and merged by time: for recordings in which more than one buffer
//! holds events of a CPU, and for threads that cannot be put in order otherwise.

use super::Recording;
use super::delivery::Delivery;
use super::page::Walk;
use super::source::{Buffers, Source};
use crate::Error;
use crate::parallel::Complaints;
use crate::sink::Sink;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

impl Recording {
    /// Reads everything with one thread, merged by time, and gives what is wrong with it.
    pub fn read<S: Sink>(
        &self,
        stop: &AtomicBool,
        progress: &AtomicU64,
        sink: &mut S,
    ) -> Result<Vec<String>, Error> {
        let complaints = Complaints::default();
        let mut is_stopped = false;
        let mut streams: Vec<CpuStream<'_>> =
            self.sources(&complaints)?.into_iter().map(CpuStream::new).collect();
        let mut heap: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        for (index, stream) in streams.iter_mut().enumerate() {
            heap.extend(stream.next_time().map(|time| Reverse((time, index))));
        }
        while let Some(Reverse((time, index))) = heap.pop() {
            is_stopped = stop.load(Ordering::Relaxed);
            if is_stopped {
                break;
            }
            let stream = &mut streams[index];
            let time_ns = self.front.clock.to_ns(time);
            let cpu = stream.source.cpu;
            let mut delivery = Delivery { decoders: &self.decoders, cpu, sink, departure: None };
            if let Some(missed) = stream.walk.missed.take() {
                delivery.lost(time_ns, missed);
            }
            delivery.take(stream.record(), time_ns);
            delivery.flush();
            progress.fetch_add(stream.source.read_since(), Ordering::Relaxed);
            heap.extend(stream.next_time().map(|time| Reverse((time, index))));
        }
        for stream in streams {
            // Behind the last event.
            if let Some(missed) = stream.walk.missed {
                let at_ns = self.front.clock.to_ns(stream.walk.time).saturating_add(1);
                sink.lost(stream.source.cpu, at_ns, missed);
            }
        }
        Ok(complaints.into_warnings(is_stopped))
    }
}

/// Walks the events of one CPU in order.
struct CpuStream<'a> {
    source: Source<'a>,
    buffers: Buffers,
    walk: Walk,
    record: (usize, usize),
}

impl<'a> CpuStream<'a> {
    fn new(source: Source<'a>) -> Self {
        let walk = Walk::new(source.page_size);
        Self { source, buffers: Buffers::default(), walk, record: (0, 0) }
    }

    /// Goes to the next event and gives its time; `None` at the end.
    fn next_time(&mut self) -> Option<u64> {
        loop {
            if let Some(record) = self.walk.next(self.buffers.pages()) {
                self.record = record;
                return Some(self.walk.time);
            }
            if !self.source.next_pages(&mut self.buffers, &mut self.walk) {
                return None;
            }
        }
    }

    /// The raw record of the event that `next_time` went to.
    fn record(&self) -> &[u8] {
        self.buffers.pages().get(self.record.0..self.record.1).unwrap_or_default()
    }
}

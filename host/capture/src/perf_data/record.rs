//! Records: the walk from one to the next, and the decoding of the few kinds that matter.

use super::kind::{self, HEADER, header_at};
use super::layout::Layouts;
use super::sample::raw_at;
use crate::sink::Sink;
use trace::kvm::Stamp;

/// Why a walk ended before the end of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// The last record continues beyond the bytes.
    Partial,
    /// A record's size is impossible: the bytes are damaged from here on.
    Damaged,
    /// Compressed records are read by a stream, not here.
    Compressed,
}

/// How far a walk came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// Offset of the first record not walked.
    pub at: usize,
    /// Why it came no further; `None` at the limit.
    pub stopped: Option<Break>,
}

impl Layouts {
    /// Delivers the records that begin before `limit`.
    pub fn walk<S: Sink>(&self, bytes: &[u8], limit: usize, sink: &mut S) -> Walk {
        let mut at = 0;
        let stopped = loop {
            at = self.frequent_samples(bytes, at, limit, sink);
            if at >= limit {
                break None;
            }
            let Some((kind, size)) = header_at(bytes, at) else {
                break (at < bytes.len()).then_some(Break::Partial);
            };
            if size < HEADER {
                break Some(Break::Damaged);
            }
            let Some(record) = bytes.get(at..at + size) else {
                break Some(Break::Partial);
            };
            if kind == kind::SAMPLE {
                self.single(record, sink);
            } else if matches!(kind, kind::COMPRESSED | kind::COMPRESSED2) {
                break Some(Break::Compressed);
            } else {
                // A record may announce bytes that follow it, even beyond this buffer.
                at = at.saturating_add(self.other(kind, record, sink));
            }
            at += size;
        };
        Walk { at, stopped }
    }

    #[inline(never)]
    fn single<S: Sink>(&self, record: &[u8], sink: &mut S) {
        let Some(event) = self.event_of(record) else { return };
        let (Some(decoder), layout) = (&event.decoder, &event.layout) else { return };
        let raw = if layout.is_raw_fixed {
            raw_at(record, layout.fixed_end)
        } else {
            layout.raw_after_variable(record)
        };
        let Some(raw) = raw else { return };
        let Some(decoded) = decoder.decode(raw) else { return };
        let word = |at: usize| {
            record.get(at..at + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().unwrap_or([0; 8])))
        };
        // Without its own field the thread stands in every tracepoint's common part.
        let ids = if layout.thread != 0 {
            word(layout.thread)
        } else {
            let thread =
                raw.get(4..8).map_or(0, |b| u32::from_le_bytes(b.try_into().unwrap_or([0; 4])));
            u64::from(thread) << 32
        };
        let stamp = Stamp {
            time_ns: word(layout.time),
            process: ids as u32,
            thread: (ids >> 32) as u32,
            cpu: if layout.cpu == 0 { 0 } else { word(layout.cpu) as u32 },
        };
        sink.event(&stamp, &decoded);
    }

    /// When a record was made, if it says so.
    pub fn time_of(&self, kind: u32, record: &[u8]) -> Option<u64> {
        if kind == kind::SAMPLE {
            let at = self.event_of(record)?.layout.time;
            let bytes = record.get(at..at + 8).filter(|_| at != 0)?;
            return Some(u64::from_le_bytes(bytes.try_into().ok()?));
        }
        let is_kernels = self.has_sample_id && kind <= kind::LAST_OF_KERNEL;
        self.common.trailer(record).filter(|_| is_kernels).map(|(time, _)| time)
    }

    /// Handles what is not a sample; returns how many bytes follow the record outside its size.
    #[cold]
    fn other<S: Sink>(&self, kind: u32, record: &[u8], sink: &mut S) -> usize {
        let word = |at: usize| -> Option<u64> {
            Some(u64::from_le_bytes(record.get(at..at + 8)?.try_into().ok()?))
        };
        match kind {
            kind::FINISHED_ROUND => sink.finished_round(),
            kind::LOST => {
                let (time, cpu) = if self.has_sample_id {
                    self.common.trailer(record).unwrap_or((0, 0))
                } else {
                    (0, 0)
                };
                sink.lost(cpu, time, word(16).unwrap_or(0));
            }
            // Counted when the recording ends: when they were lost is not known.
            kind::LOST_SAMPLES => sink.lost(u32::MAX, 0, word(8).unwrap_or(0)),
            kind::COMM => {
                let ids = word(8).unwrap_or(0);
                let name = record.get(16..).unwrap_or_default();
                let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
                let name = String::from_utf8_lossy(name);
                sink.thread_name(ids as u32, (ids >> 32) as u32, &name);
            }
            kind::AUXTRACE => return word(8).map_or(0, |size| usize::try_from(size).unwrap_or(0)),
            kind::TRACING_DATA => {
                let size = word(8).unwrap_or(0) as u32;
                return (size as usize).next_multiple_of(8);
            }
            _ => {}
        }
        0
    }

    /// Whether a sample and a chain of plausible records begin here: used to find a record's start
    /// in the middle of a file, and verified by the walk that arrives from before.
    pub fn looks_like_records(&self, bytes: &[u8], mut at: usize, most: usize) -> bool {
        if !self.looks_like_a_sample(bytes, at) {
            return false;
        }
        for _ in 0..most {
            let Some((kind, size)) = header_at(bytes, at) else { return true };
            let known = kind != 0 && kind <= kind::LAST_OF_KERNEL
                || (kind::FIRST_OF_PERF..=kind::LAST_OF_PERF).contains(&kind);
            if !known || size < HEADER || size % 8 != 0 {
                return false;
            }
            let Some(record) = bytes.get(at..at + size) else { return true };
            if kind == kind::SAMPLE && self.event_of(record).is_none() {
                return false;
            }
            at += size;
        }
        true
    }

    /// Whether the bytes are a sample of a known event that is as long as its raw data says.
    fn looks_like_a_sample(&self, bytes: &[u8], at: usize) -> bool {
        let Some((kind::SAMPLE, size)) = header_at(bytes, at) else { return false };
        let Some(record) = bytes.get(at..at + size) else { return false };
        let Some(event) = self.event_of(record) else { return false };
        let layout = &event.layout;
        let end = |raw: &[u8]| (layout.fixed_end + 4 + raw.len()).next_multiple_of(8);
        !layout.is_raw_fixed || raw_at(record, layout.fixed_end).is_some_and(|raw| end(raw) == size)
    }
}

//! Chunks that were walked by several threads, back in the order of the file.

use super::header::Header;
use super::record::Break;
use crate::sink::Stretched;
use crate::{Error, Reading};
use std::sync::atomic::Ordering;

/// A walked chunk: where it really began, where the next one must, and what borders it.
pub struct Walked<E> {
    pub start: u64,
    pub end: u64,
    pub stopped: Option<Break>,
    pub edges: E,
}

/// Puts chunks back into the order of the file and checks that they meet.
pub struct Joiner<S: Stretched, W, J> {
    pub join: J,
    /// Walks what lies between two places.
    pub between: W,
    /// What was delivered by such walks.
    pub spare: Vec<S>,
    pub next: usize,
    /// Where the next chunk must begin.
    pub expected: u64,
    pub waiting: Vec<Option<Walked<S::Edges>>>,
    /// Bytes of all chunks that have arrived.
    pub walked: u64,
    /// Nobody else reads on meanwhile.
    pub is_alone: bool,
    pub is_misled: bool,
    pub ended: Option<(u64, Break)>,
    pub failure: Option<Error>,
}

impl<S, W, J> Joiner<S, W, J>
where
    S: Stretched,
    W: Fn(u64, u64) -> Result<(Walked<S::Edges>, S), Error>,
    J: FnMut(S::Edges),
{
    /// Takes a chunk; returns whether more are wanted.
    pub fn arrive(
        &mut self,
        index: usize,
        walked: Result<Walked<S::Edges>, Error>,
        stop: bool,
    ) -> bool {
        match walked {
            Ok(walked) => {
                self.walked += walked.end - walked.start;
                self.waiting[index] = Some(walked);
            }
            Err(error) => self.failure = Some(error),
        }
        while self.failure.is_none() && self.ended.is_none() && !self.is_misled {
            let Some(walked) = self.waiting.get_mut(self.next).and_then(Option::take) else {
                break;
            };
            if walked.start != self.expected {
                // A reading that was stopped has gaps, over which nothing is to be joined.
                if stop || !self.walk_between(walked.start) {
                    self.is_misled = !stop;
                    break;
                }
            }
            self.expected = walked.end;
            self.ended = walked.stopped.map(|why| (walked.end, why));
            (self.join)(walked.edges);
            self.next += 1;
            // What comes after a break does not count, but may have been read by another thread.
            let is_last = self.next == self.waiting.len();
            self.is_misled = self.ended.is_some() && !is_last && !self.is_alone;
        }
        self.failure.is_none() && self.ended.is_none() && !self.is_misled
    }

    /// Takes the records in front of the sample that a chunk began with; returns whether they end
    /// where it begins.
    fn walk_between(&mut self, start: u64) -> bool {
        if start < self.expected {
            return false;
        }
        match (self.between)(self.expected, start) {
            Ok((walked, sink)) => {
                let has_met = walked.end == start && walked.stopped.is_none();
                self.walked += walked.end - walked.start;
                (self.join)(walked.edges);
                self.spare.push(sink);
                has_met
            }
            Err(error) => {
                self.failure = Some(error);
                false
            }
        }
    }

    pub fn warnings(
        &mut self,
        header: &Header,
        reading: &Reading<'_>,
    ) -> Result<Vec<String>, Error> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let end = header.data.end;
        let rest = |at: u64| end.saturating_sub(at);
        Ok(match self.ended {
            Some((at, Break::Partial)) => vec![format!(
                "the last record, at offset {at:#x}, breaks off: its {} bytes are left out",
                rest(at)
            )],
            Some((at, Break::Damaged)) => vec![format!(
                "the record at offset {at:#x} is damaged: {} bytes from there on are left out",
                rest(at)
            )],
            Some((at, Break::Compressed)) => vec![format!(
                "a compressed record at offset {at:#x} in a file that does not announce any: {} \
                 bytes are left out",
                rest(at)
            )],
            None if reading.stop.load(Ordering::Relaxed) && self.expected < end => {
                let left = (end - header.data.start).saturating_sub(self.walked);
                vec![format!("stopped on request: {left} bytes were not read")]
            }
            None => Vec::new(),
        })
    }
}

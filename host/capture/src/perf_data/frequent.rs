//! The samples of which a recording has millions, read at fixed places by straight code.
//!
//! Which event comes next is what a processor cannot predict, and a mispredicted branch costs as
//! much as decoding a whole sample. So an exit is taken together with the access that follows it,
//! without a branch on whether there is one and what it is; what remains is an exit and an entry by
//! turns.

use super::layout::{Fast, HEADER, Layouts, WINDOW};
use super::record::kind;
use crate::sink::Sink;
use trace::kvm::{Access, AccessKind, Departure, Exit, Stamp};

/// What a sample is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Decoded the long way, or read past.
    Single,
    Entry,
    Exit,
    Access,
}

/// Longer samples than this are decoded the long way.
const LONGEST: usize = 512;
/// Bytes from the start of a sample within which it and the fields of the next lie.
const PAIR: usize = LONGEST + WINDOW;

/// The eight bytes at an offset that cannot leave the window.
#[inline(always)]
fn word_in(window: &[u8; WINDOW], at: u8) -> u64 {
    let at = usize::from(at);
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&window[at..at + 8]);
    u64::from_le_bytes(bytes)
}

impl Fast {
    #[inline(always)]
    fn stamp(&self, window: &[u8; WINDOW]) -> Stamp {
        let ids = word_in(window, self.thread);
        Stamp {
            time_ns: word_in(window, self.time),
            process: ids as u32,
            thread: (ids >> 32) as u32,
            cpu: word_in(window, self.cpu) as u32,
        }
    }
}

impl Layouts {
    /// How the record in a window is read if it is a frequent sample, and its size.
    #[inline(always)]
    fn frequent(&self, window: &[u8; WINDOW]) -> (&Fast, usize) {
        let header = word_in(window, 0);
        let size = (header >> 48) as usize;
        let id = word_in(window, self.id_byte).wrapping_sub(self.first_id);
        let fast = usize::try_from(id).ok().and_then(|id| self.fast_by_id.get(id));
        let fast = fast.unwrap_or(&Fast::NONE);
        let is_usable = (header as u32 == kind::SAMPLE)
            & (size >= usize::from(fast.least))
            & (size.wrapping_sub(HEADER) <= LONGEST - HEADER);
        (if is_usable { fast } else { &Fast::NONE }, size)
    }

    /// Delivers the frequent samples from `at` on, up to a record that is none, that begins at the
    /// limit, or that is too near to the end of the bytes. Returns where that is.
    #[inline(always)]
    pub fn frequent_samples<S: Sink>(
        &self,
        bytes: &[u8],
        mut at: usize,
        limit: usize,
        sink: &mut S,
    ) -> usize {
        while at < limit
            && let Some(pair) = bytes.get(at..).and_then(<[u8]>::first_chunk::<PAIR>)
            && let Some(window) = pair.first_chunk::<WINDOW>()
        {
            let (fast, size) = self.frequent(window);
            match fast.class {
                Class::Exit if size <= LONGEST => {
                    let Some(next) = pair[size..].first_chunk::<WINDOW>() else { break };
                    let is_last = at + size >= limit;
                    at += size + self.departure(window, fast, next, is_last, sink);
                }
                Class::Entry => {
                    let vcpu = word_in(window, fast.fields[0]) as u32;
                    sink.entry(&fast.stamp(window), vcpu);
                    at += size;
                }
                _ => break,
            }
        }
        at
    }

    /// Takes an exit, and the record after it if that is an access of the same thread and CPU;
    /// returns the size of that.
    #[inline(always)]
    fn departure<S: Sink>(
        &self,
        exit: &[u8; WINDOW],
        exit_at: &Fast,
        next: &[u8; WINDOW],
        is_last: bool,
        sink: &mut S,
    ) -> usize {
        let (next_at, size) = self.frequent(next);
        let stamp = exit_at.stamp(exit);
        let other = next_at.stamp(next);
        let has_access = (next_at.class == Class::Access)
            & (stamp.thread == other.thread)
            & (stamp.cpu == other.cpu)
            & !is_last;
        let [isa, reason, info1, info2, interruption] = exit_at.fields;
        let [direction, address, value, ..] = next_at.fields;
        let kept = if has_access { u64::MAX } else { 0 };
        sink.departure(&Departure {
            stamp,
            exit: Exit {
                isa: word_in(exit, isa) as u32,
                reason: word_in(exit, reason) as u32,
                info1: word_in(exit, info1),
                info2: word_in(exit, info2),
                interruption: word_in(exit, interruption) as u32,
            },
            access: Access {
                kind: if has_access { next_at.access } else { AccessKind::None },
                time_ns: if has_access { other.time_ns } else { stamp.time_ns },
                direction: (word_in(next, direction) & kept) as u32,
                address: word_in(next, address) & next_at.address_mask & kept,
                value: word_in(next, value) & next_at.value_mask & kept,
            },
        });
        size & kept as usize
    }
}

//! The samples of which a recording has millions, read at fixed places by straight code.
//!
//! Which event comes next is what a processor cannot predict, and a mispredicted branch costs as
//! much as decoding a whole sample. So an exit is taken together with the access that follows it,
//! and with the entry behind them if that is of the same thread, without a branch on what the
//! access is.

use super::layout::{Fast, Frame, LONGEST, Layouts, WINDOW};
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

/// Bytes from the start of an exit within which it, its access and the fields of the entry lie.
const TRIP: usize = 2 * LONGEST + WINDOW;

/// The eight bytes at an offset that cannot leave the window.
#[inline(always)]
fn word_in(window: &[u8; WINDOW], at: u8) -> u64 {
    let at = usize::from(at);
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&window[at..at + 8]);
    u64::from_le_bytes(bytes)
}

impl Frame {
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

    /// Whether a sample is of the same thread and CPU as another.
    #[inline(always)]
    fn is_beside(&self, window: &[u8; WINDOW], stamp: &Stamp) -> bool {
        let thread = (word_in(window, self.thread) >> 32) as u32;
        (thread == stamp.thread) & (word_in(window, self.cpu) as u32 == stamp.cpu)
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
        // One comparison says that the size is neither too small nor too large.
        let is_usable = (header as u32 == kind::SAMPLE)
            & (size.wrapping_sub(usize::from(fast.least)) <= usize::from(fast.room));
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
            && let Some(trip) = bytes.get(at..).and_then(<[u8]>::first_chunk::<TRIP>)
            && let Some(window) = trip.first_chunk::<WINDOW>()
        {
            let (fast, size) = self.frequent(window);
            match fast.class {
                Class::Exit if size <= LONGEST => {
                    let Some(taken) = self.exit(trip, fast, size, limit - at, sink) else { break };
                    at += taken;
                }
                Class::Entry => {
                    let vcpu = word_in(window, fast.fields[0]) as u32;
                    sink.entry(&self.frame.stamp(window), vcpu);
                    at += size;
                }
                _ => break,
            }
        }
        at
    }

    /// Takes an exit of a size, the record after it if that is an access of the same thread and CPU,
    /// and the entry after those if it is theirs too; records that begin at the limit are not taken.
    /// Returns the size of all that was.
    #[inline(always)]
    fn exit<S: Sink>(
        &self,
        trip: &[u8; TRIP],
        exit_at: &Fast,
        size: usize,
        limit: usize,
        sink: &mut S,
    ) -> Option<usize> {
        let exit = trip.first_chunk::<WINDOW>()?;
        let next = trip.get(size..)?.first_chunk::<WINDOW>()?;
        let (next_at, next_size) = self.frequent(next);
        let stamp = self.frame.stamp(exit);
        let has_access =
            (next_at.class == Class::Access) & self.frame.is_beside(next, &stamp) & (size < limit);
        let kept = if has_access { u64::MAX } else { 0 };
        let taken = size + (next_size & kept as usize);
        let [isa, reason, info1, info2, interruption] = exit_at.fields;
        let [direction, address, value, ..] = next_at.fields;
        let departure = Departure {
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
                time_ns: if has_access { word_in(next, self.frame.time) } else { stamp.time_ns },
                direction: (word_in(next, direction) & kept) as u32,
                address: word_in(next, address) & next_at.address_mask & kept,
                value: word_in(next, value) & next_at.value_mask & kept,
            },
        };
        let last = trip.get(taken..)?.first_chunk::<WINDOW>()?;
        let (last_at, last_size) = self.frequent(last);
        let is_entry =
            (last_at.class == Class::Entry) & self.frame.is_beside(last, &stamp) & (taken < limit);
        if is_entry {
            let vcpu = word_in(last, last_at.fields[0]) as u32;
            sink.trip(&departure, word_in(last, self.frame.time), vcpu);
            return Some(taken + last_size);
        }
        sink.departure(&departure);
        Some(taken)
    }
}

//! The samples of which a recording has millions, read at fixed places by straight code.
//!
//! Which event comes next is what a processor cannot predict, and a mispredicted branch costs as
//! much as decoding a whole sample. So an exit is taken together with the access that follows it,
//! and with the entry behind them if that is of the same thread, without a branch on what the
//! access is.

use super::fixed::{Class, Fast, Frame, MOST_BYTES, WINDOW};
use super::layout::Layouts;
use crate::sink::Sink;
use trace::kvm::{Access, Departure, Exit, Stamp};

/// Bytes from the start of an exit within which it, its access and the fields of the entry lie.
const TRIP: usize = 2 * MOST_BYTES + WINDOW;

/// The eight bytes at an offset that cannot leave the window.
#[inline(always)]
fn word_in(window: &[u8; WINDOW], at: u8) -> u64 {
    let at = usize::from(at);
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&window[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// Where samples have what they have: known to the compiler for nearly all recordings.
trait Places: Copy {
    fn frame(self) -> Frame;

    #[inline(always)]
    fn stamp(self, window: &[u8; WINDOW]) -> Stamp {
        let Frame { thread, time, cpu, .. } = self.frame();
        let ids = word_in(window, thread);
        Stamp {
            time_ns: word_in(window, time),
            process: ids as u32,
            thread: (ids >> 32) as u32,
            cpu: word_in(window, cpu) as u32,
        }
    }

    #[inline(always)]
    fn time(self, window: &[u8; WINDOW]) -> u64 {
        word_in(window, self.frame().time)
    }

    /// Whether a sample is of the same thread and CPU as another.
    #[inline(always)]
    fn is_beside(self, window: &[u8; WINDOW], stamp: &Stamp) -> bool {
        let Frame { thread, cpu, .. } = self.frame();
        let thread = (word_in(window, thread) >> 32) as u32;
        (thread == stamp.thread) & (word_in(window, cpu) as u32 == stamp.cpu)
    }
}

/// Of recordings of `perf record` and `perf kvm stat record` on Linux 5.10 and later, if nothing
/// else was asked for: IDENTIFIER, IP, TID, TIME, CPU, PERIOD, RAW.
#[derive(Clone, Copy)]
struct Usual;

const USUAL: Frame = Frame { id: 8, thread: 24, time: 32, cpu: 40, exit: [84, 68, 92, 100, 108] };

impl Places for Usual {
    #[inline(always)]
    fn frame(self) -> Frame {
        USUAL
    }
}

impl Places for Frame {
    #[inline(always)]
    fn frame(self) -> Frame {
        self
    }
}

impl Layouts {
    /// Delivers the frequent samples from `at` on, up to a record that is none, or that is too near
    /// to the limit or to the end of the bytes. Returns where that is.
    pub fn frequent_samples<S: Sink>(
        &self,
        bytes: &[u8],
        at: usize,
        limit: usize,
        sink: &mut S,
    ) -> usize {
        match self.frame {
            Some(USUAL) => self.frequent_at(Usual, bytes, at, limit, sink),
            Some(frame) => self.frequent_at(frame, bytes, at, limit, sink),
            None => at,
        }
    }

    // By itself, so that registers are given out for this loop alone.
    #[inline(never)]
    fn frequent_at<S: Sink>(
        &self,
        places: impl Places,
        bytes: &[u8],
        mut at: usize,
        limit: usize,
        sink: &mut S,
    ) -> usize {
        // An exit that begins before this has an access and an entry that begin before the limit.
        let limit = limit.saturating_sub(2 * MOST_BYTES);
        while at < limit
            && let Some(trip) = bytes.get(at..).and_then(<[u8]>::first_chunk::<TRIP>)
            && let Some(window) = trip.first_chunk::<WINDOW>()
            && let Some(fast) = self.frequent(places, window)
        {
            at += match fast.class {
                Class::Exit => self.exit(places, trip, fast, sink),
                Class::Entry => {
                    sink.entry(&places.stamp(window), fast.vcpu(window));
                    usize::from(fast.size)
                }
                Class::Access | Class::Other => break,
            };
        }
        at
    }

    /// How the record in a window is read if it is a frequent sample.
    #[inline(always)]
    fn frequent(&self, places: impl Places, window: &[u8; WINDOW]) -> Option<&Fast> {
        let id = word_in(window, places.frame().id).wrapping_sub(self.first_id);
        let fast = self.fast_by_id.get(id as usize)?;
        (word_in(window, 0) == fast.header).then_some(fast)
    }

    /// Takes an exit, the record after it if that is an access of the same thread and CPU, and the
    /// entry after those if it is theirs too. Returns the size of all that was.
    #[inline(always)]
    fn exit<S: Sink>(
        &self,
        places: impl Places,
        trip: &[u8; TRIP],
        exit_at: &Fast,
        sink: &mut S,
    ) -> usize {
        let exit = window_at(trip, 0);
        let size = usize::from(exit_at.size);
        let next = window_at(trip, size);
        let stamp = places.stamp(exit);
        let [isa, reason, info1, info2, interruption] = places.frame().exit;
        let mut departure = Departure {
            stamp,
            exit: Exit {
                isa: word_in(exit, isa) as u32,
                reason: word_in(exit, reason) as u32,
                info1: word_in(exit, info1),
                info2: word_in(exit, info2),
                interruption: word_in(exit, interruption) as u32,
            },
            access: Access { time_ns: stamp.time_ns, ..Access::default() },
        };
        let next_at = match self.frequent(places, next) {
            // Apart from the way below, so that nothing is worked out about an access where none
            // is.
            Some(fast) if fast.class == Class::Entry => {
                entered(places, &departure, fast, next, sink);
                return size + usize::from(fast.size);
            }
            Some(fast) if fast.class == Class::Access && places.is_beside(next, &stamp) => fast,
            _ => {
                sink.departure(&departure);
                return size;
            }
        };
        let [direction, address, value, ..] = next_at.fields;
        departure.access = Access {
            kind: next_at.access,
            time_ns: places.time(next),
            direction: word_in(next, direction) as u32,
            address: word_in(next, address) & next_at.address_mask,
            value: word_in(next, value),
        };
        let taken = size + usize::from(next_at.size);
        let last = window_at(trip, taken);
        match self.frequent(places, last) {
            Some(fast) if fast.class == Class::Entry => {
                entered(places, &departure, fast, last, sink);
                taken + usize::from(fast.size)
            }
            _ => {
                sink.departure(&departure);
                taken
            }
        }
    }
}

/// Delivers a departure and the entry behind it, be it that of the same thread or of another.
#[inline(always)]
fn entered<S: Sink>(
    places: impl Places,
    departure: &Departure,
    entry_at: &Fast,
    entry: &[u8; WINDOW],
    sink: &mut S,
) {
    if places.is_beside(entry, &departure.stamp) {
        sink.trip(departure, places.time(entry), || entry_at.vcpu(entry));
    } else {
        sink.departure(departure);
        sink.entry(&places.stamp(entry), entry_at.vcpu(entry));
    }
}

impl Fast {
    /// Of an entry.
    #[inline(always)]
    fn vcpu(&self, window: &[u8; WINDOW]) -> u32 {
        word_in(window, self.fields[0]) as u32
    }
}

/// The window from an offset on, which is the sum of two sizes at most.
#[inline(always)]
fn window_at(trip: &[u8; TRIP], at: usize) -> &[u8; WINDOW] {
    let mut window = &[0; WINDOW];
    if let Some(found) = trip.get(at..).and_then(<[u8]>::first_chunk) {
        window = found;
    }
    window
}

#[cfg(test)]
mod tests;

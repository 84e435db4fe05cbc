//! What a processor has stored and nobody else sees yet. [SDM3 "Store Buffer"]
//!
//! While a processor runs, nobody else does, so memory is lent its view: its stores are in memory,
//! and each entry of the buffer holds the bytes that lie beneath. Its loads, its walks and its
//! fetches then find what it has stored without being told, byte by byte, however operands overlap.
//! When its turn ends the entries are taken out again, the youngest first, and memory is what all
//! others see. An entry that becomes visible is only forgotten, the oldest first: what it wrote
//! stays. So the order is that of x86-TSO, whose transitions these are. [Owens, Sarkar, Sewell: "A
//! Better x86 Memory Model: x86-TSO"]
//!
//! How long an entry waits is drawn when the turn ends that made it. Writes of hardware (accessed
//! bits, control blocks, virtual APICs, devices) come behind all stores of the processor whose turn
//! it is, as those of locked operations do, and so does a store to a line that holds decoded code
//! or is monitored.
//!
//! DEVIATION(SDM3 "Store Buffer"): a processor's own page walks see its stores before others do,
//! and a walk that sets a bit lets them out; real parts may do either. Stores of more than 32 bytes
//! (string instructions and state areas) are not kept, and non-temporal ones are kept in order.

use crate::{GuestMemory, Random};
use arch::time::Picoseconds;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Entries, as in the parts of this model's time; one more store lets the oldest out.
const CAPACITY: usize = 56;
/// The longest store that is kept: a YMM register.
const LONGEST: usize = 32;
/// Every second store is visible when its turn ends. Another waits less than 2^k ns from there, and
/// each k below this is as likely as another.
const DELAYS: u64 = 12;
/// The same of how long a processor's turn is, in tenths of a nanosecond.
const TURNS: u64 = 10;

/// A store that is not visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Store {
    /// An index into RAM.
    at: u64,
    length: u8,
    /// What is stored; while memory is lent, what lies beneath.
    bytes: [u8; LONGEST],
    /// When it becomes visible at the latest, once its turn is over.
    due: Option<Picoseconds>,
}

/// The stores of one processor that only itself sees, and the generator behind their times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreBuffer {
    /// The oldest first.
    stores: VecDeque<Store>,
    random: Random,
}

impl StoreBuffer {
    /// An empty one; equal seeds give equal times.
    pub fn new(seed: u64) -> Self {
        Self { stores: VecDeque::new(), random: Random(seed) }
    }

    /// How many stores are not visible.
    pub fn len(&self) -> usize {
        self.stores.len()
    }

    /// Others see all that this processor has stored.
    pub fn is_empty(&self) -> bool {
        self.stores.is_empty()
    }

    /// Whether what a file says of it can be, in a machine with `ram` bytes of RAM.
    pub fn fits(&self, ram: u64) -> bool {
        let fits = |store: &Store| {
            let length = u64::from(store.length);
            (1..=LONGEST as u64).contains(&length)
                && store.at.checked_add(length).is_some_and(|end| end <= ram)
        };
        self.stores.len() <= CAPACITY && self.stores.iter().all(fits)
    }

    /// How long the processor's next turn is, so that others come in between its instructions.
    pub fn next_turn(&mut self) -> Picoseconds {
        let longest = 100u64 << self.random.below(TURNS);
        Picoseconds(1 + self.random.below(longest))
    }

    /// The turn is over at `now`: its stores get their times, and what is due is visible.
    fn end_turn(&mut self, now: Picoseconds) {
        let mut last = Picoseconds::ZERO;
        for store in &mut self.stores {
            let due = store.due.unwrap_or_else(|| {
                if self.random.one_in(2) {
                    return now;
                }
                let longest = 1000u64 << self.random.below(DELAYS);
                now.saturating_add(Picoseconds(self.random.below(longest)))
            });
            last = last.max(due);
            store.due = Some(last);
        }
        while self.stores.front().is_some_and(|oldest| oldest.due <= Some(now)) {
            self.stores.pop_front();
        }
    }
}

impl GuestMemory {
    /// Memory is as the processor sees it whose buffer this is, until it is taken back.
    pub fn lend(&mut self, mut buffer: StoreBuffer) {
        let mut is_watched = false;
        for store in &mut buffer.stores {
            is_watched |= self.exchange(store);
        }
        if is_watched {
            // Others have decoded these bytes, or wait for them.
            buffer.stores.clear();
        }
        self.lent = Some(buffer);
        self.update_recorded();
    }

    /// Memory is as all see it. `turn_end` is when the processor's turn was over, if it is. `None`
    /// if nothing was lent.
    pub fn take_back(&mut self, turn_end: Option<Picoseconds>) -> Option<StoreBuffer> {
        let mut buffer = self.lent.take()?;
        self.update_recorded();
        if let Some(now) = turn_end {
            buffer.end_turn(now);
        }
        for store in buffer.stores.iter_mut().rev() {
            self.exchange(store);
        }
        Some(buffer)
    }

    /// Whether the stores of the processor that runs are kept from others for a while.
    #[inline(always)]
    pub fn keeps_stores(&self) -> bool {
        self.lent.is_some()
    }

    /// All stores of the processor that runs become visible.
    #[inline(always)]
    pub fn publish_stores(&mut self) {
        if let Some(buffer) = &mut self.lent {
            buffer.stores.clear();
        }
    }

    /// The same, if one of them is to a line of `[offset, offset + length)`.
    pub(crate) fn publish_lines(&mut self, offset: usize, length: usize) {
        let (first, end) = (offset as u64 & !63, (offset + length).next_multiple_of(64) as u64);
        let Some(buffer) = &mut self.lent else { return };
        let is_in = |store: &Store| store.at < end && first < store.at + u64::from(store.length);
        if buffer.stores.iter().any(is_in) {
            buffer.stores.clear();
        }
    }

    /// A store of the processor that runs is about to be made.
    pub(crate) fn keep_store(&mut self, offset: usize, length: usize) {
        let Some(buffer) = &mut self.lent else { return };
        if length > LONGEST {
            return buffer.stores.clear();
        }
        let Some(beneath) = self.ram.get(offset..offset + length) else { return };
        if buffer.stores.len() >= CAPACITY {
            buffer.stores.pop_front();
        }
        let mut bytes = [0; LONGEST];
        bytes[..length].copy_from_slice(beneath);
        let (at, length) = (offset as u64, length as u8);
        buffer.stores.push_back(Store { at, length, bytes, due: None });
    }

    /// Puts a store into memory or takes it out; true if its line is watched.
    fn exchange(&mut self, store: &mut Store) -> bool {
        let (at, length) = (store.at as usize, usize::from(store.length));
        self.save_before_change(at, length);
        let kept = store.bytes.get_mut(..length).unwrap_or(&mut []);
        let Some(ram) = self.ram.get_mut(at..at + length) else { return false };
        if kept.len() != length || length == 0 {
            return false;
        }
        ram.swap_with_slice(kept);
        self.note_write(at, length)
    }
}

#[cfg(test)]
mod tests;

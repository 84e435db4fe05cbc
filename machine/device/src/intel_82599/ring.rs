//! What a receive and a transmit queue have in common: a ring of descriptors.
//! [82599 "Receive Descriptor Queue Structure"]

use arch::intel_82599::DESCRIPTOR_SIZE;
use arch::intel_82599::register::{BASE_MASK, LENGTH_MASK, QueueControl, queue};
use serde::{Deserialize, Serialize};

/// Descriptors from `head` up to `tail` are the function's.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Ring {
    base: u64,
    length: u32,
    head: u32,
    tail: u32,
    pub control: QueueControl,
    cache_access: u32,
}

impl Ring {
    /// Descriptors in the ring; 0 before a driver has set it up.
    pub const fn count(&self) -> u32 {
        self.length / DESCRIPTOR_SIZE as u32
    }

    /// Descriptors that are the function's.
    pub fn available(&self) -> u32 {
        match self.count() {
            0 => 0,
            _ if !self.control.is_enabled() => 0,
            count => (self.tail % count + count - self.head % count) % count,
        }
    }

    /// The number of the descriptor `ahead` of the next.
    pub fn index(&self, ahead: u32) -> u32 {
        (self.head % self.count().max(1) + ahead) % self.count().max(1)
    }

    /// Where a descriptor is.
    pub const fn address(&self, index: u32) -> u64 {
        self.base.wrapping_add(index as u64 * DESCRIPTOR_SIZE)
    }

    /// The next `count` descriptors are used up.
    pub fn consume(&mut self, count: u32) {
        self.head = self.index(count);
    }

    /// Reads a register that both directions have.
    pub fn read(&self, offset: u64) -> u32 {
        match offset {
            queue::BASE => self.base as u32,
            queue::BASE_HIGH => (self.base >> 32) as u32,
            queue::LENGTH => self.length,
            queue::CACHE_ACCESS => self.cache_access,
            queue::HEAD => self.head,
            queue::TAIL => self.tail,
            queue::CONTROL => self.control.into_bits(),
            _ => 0,
        }
    }

    /// Writes a register that both directions have.
    pub fn write(&mut self, offset: u64, value: u32) {
        match offset {
            queue::BASE => self.base = self.base >> 32 << 32 | u64::from(value & BASE_MASK),
            queue::BASE_HIGH => self.base = u64::from(value) << 32 | self.base & 0xFFFF_FFFF,
            queue::LENGTH => self.length = value & LENGTH_MASK,
            queue::CACHE_ACCESS => self.cache_access = value,
            queue::HEAD => self.head = value & 0xFFFF,
            queue::TAIL => self.tail = value & 0xFFFF,
            queue::CONTROL => self.control = QueueControl::from_bits(value).with_flushes(false),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_from_head_to_tail_are_the_functions_around_the_end() {
        for (length, head, tail, enable, available) in [
            (0, 0, 5, true, 0),
            (128, 0, 0, true, 0),
            (128, 0, 7, true, 7),
            (128, 6, 2, true, 4),
            (128, 6, 2, false, 0),
            (128, 9, 0xFFFF, true, 6),
        ] {
            let mut ring = Ring::default();
            ring.write(queue::LENGTH, length);
            ring.write(queue::HEAD, head);
            ring.write(queue::TAIL, tail);
            ring.control.set_is_enabled(enable);
            assert_eq!(ring.available(), available, "{head} to {tail} of {length}");
        }
    }

    #[test]
    fn bits_that_do_not_count_read_zero() {
        let mut ring = Ring::default();
        for offset in [queue::BASE, queue::BASE_HIGH, queue::LENGTH, queue::HEAD, queue::CONTROL] {
            ring.write(offset, u32::MAX);
        }
        assert_eq!(ring.read(queue::BASE), 0xFFFF_FF80);
        assert_eq!(ring.read(queue::BASE_HIGH), u32::MAX);
        assert_eq!(ring.read(queue::LENGTH), 0xF_FF80);
        assert_eq!(ring.read(queue::HEAD), 0xFFFF);
        assert_eq!(ring.read(queue::CONTROL) & 1 << 26, 0, "a flush is over at once");
    }
}

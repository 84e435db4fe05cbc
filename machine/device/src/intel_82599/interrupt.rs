//! Causes, masks and throttling of the function's MSI-X vectors. [82599 "Interrupts"]

use crate::pci::Attachment;
use arch::intel_82599::VECTORS;
use arch::intel_82599::register::{self, Allocation, THROTTLE_UNIT_NS, Throttle};
use arch::time::Picoseconds;
use serde::{Deserialize, Serialize};

/// One bit a vector.
const ALL: u32 = (1 << VECTORS) - 1;
const ALLOCATIONS: usize = ((register::ALLOCATION_END - register::ALLOCATION) / 4) as usize;

/// What a vector is allocated to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Receive(usize),
    Transmit(usize),
    Mailbox,
}

/// The interrupt registers, and which vectors have yet to send.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Interrupts {
    cause: u32,
    mask: u32,
    auto_clear: u32,
    auto_mask: u32,
    allocation: [Allocation; ALLOCATIONS],
    other: Allocation,
    throttle: [Throttle; VECTORS],
    /// When a vector may send again.
    ready_at: [Picoseconds; VECTORS],
    /// Vectors with a cause that has not been sent.
    waiting: u32,
}

impl Interrupts {
    /// Notes a cause; nothing where no vector is allocated to its source.
    pub fn raise(&mut self, source: Source) {
        let vector = match source {
            Source::Receive(queue) => self.vector_of(queue, 0),
            Source::Transmit(queue) => self.vector_of(queue, 1),
            Source::Mailbox => self.other.vector(0),
        };
        if let Some(vector) = vector {
            self.set(1 << vector);
        }
    }

    fn vector_of(&self, queue: usize, direction: usize) -> Option<u8> {
        self.allocation.get(queue / 2)?.vector(queue % 2 * 2 + direction)
    }

    fn set(&mut self, vectors: u32) {
        self.cause |= vectors & ALL;
        self.waiting |= vectors & ALL;
    }

    fn clear(&mut self, vectors: u32) {
        self.cause &= !vectors;
        self.waiting &= !vectors;
    }

    pub fn read(&mut self, offset: u64) -> u32 {
        match offset {
            register::CAUSE => {
                let cause = self.cause;
                self.clear(ALL);
                cause
            }
            register::MASK_SET => self.mask,
            register::AUTO_CLEAR => self.auto_clear,
            register::AUTO_MASK => self.auto_mask,
            register::ALLOCATION_OTHER => self.other.0,
            _ => {
                let allocation = index(offset, register::ALLOCATION, ALLOCATIONS);
                let throttle = index(offset, register::THROTTLE, VECTORS);
                allocation
                    .map(|at| self.allocation[at].0)
                    .unwrap_or_else(|| throttle.map_or(0, |at| self.throttle[at].into_bits()))
            }
        }
    }

    pub fn write(&mut self, now: Picoseconds, offset: u64, value: u32) {
        match offset {
            register::CAUSE => self.clear(value),
            register::CAUSE_SET => self.set(value),
            register::MASK_SET => {
                let opened = value & !self.mask & ALL;
                self.mask |= opened;
                self.waiting |= opened & self.cause;
            }
            register::MASK_CLEAR => self.mask &= !value,
            register::AUTO_CLEAR => self.auto_clear = value & ALL,
            register::AUTO_MASK => self.auto_mask = value & ALL,
            register::ALLOCATION_OTHER => self.other = Allocation(value),
            _ => {
                if let Some(at) = index(offset, register::ALLOCATION, ALLOCATIONS) {
                    self.allocation[at] = Allocation(value);
                } else if let Some(at) = index(offset, register::THROTTLE, VECTORS) {
                    self.write_throttle(now, at, Throttle::from_bits(value));
                }
            }
        }
    }

    fn write_throttle(&mut self, now: Picoseconds, vector: usize, value: Throttle) {
        self.throttle[vector] = Throttle::new().with_interval(value.interval());
        if !value.keeps_counter() {
            self.ready_at[vector] = now.saturating_add(units(value.counter().into()));
        }
    }

    /// When a message that throttling holds back is due.
    pub fn next_deadline(&self) -> Option<Picoseconds> {
        let held = self.waiting & self.mask;
        (0..VECTORS).filter(|vector| held & 1 << vector != 0).map(|v| self.ready_at[v]).min()
    }

    /// Sends what is waiting, unmasked and not held back; how many messages that were.
    pub fn send(&mut self, port: &mut Attachment) -> u64 {
        let mut sent = 0;
        for vector in 0..VECTORS {
            let bit = 1 << vector;
            if self.waiting & self.mask & bit == 0 || self.ready_at[vector] > port.now() {
                continue;
            }
            self.waiting &= !bit;
            self.cause &= !(bit & self.auto_clear);
            self.mask &= !(bit & self.auto_mask);
            let interval = units(self.throttle[vector].interval().into());
            self.ready_at[vector] = port.now().saturating_add(interval);
            port.signal_msix(vector as u16);
            sent += 1;
        }
        sent
    }
}

const fn units(count: u64) -> Picoseconds {
    Picoseconds::from_nanoseconds(count * THROTTLE_UNIT_NS)
}

/// The number of a register in an array of `count` that begins at `start`.
fn index(offset: u64, start: u64, count: usize) -> Option<usize> {
    let at = usize::try_from(offset.checked_sub(start)? / 4).ok()?;
    (at < count).then_some(at)
}

//! The processors' store buffers in the schedule: whose view memory shows, and how long turns are
//! where stores wait.
//!
//! A snapshot holds the stores that wait: it may be taken in the middle of a turn, and where a run
//! is cut changes nothing. A debugger that stands between two runs sees memory as all see it.

use crate::machine::{Configuration, Machine};
use crate::turn::Turn;
use arch::time::Picoseconds;
use bus::{Random, StoreBuffer};
use cpu::Activity;
use cpu::variant::MemoryOrder;

/// Another processor that does nothing before that sees no difference: turns need not be short.
const NEAR: Picoseconds = Picoseconds::from_nanoseconds(10_000);

/// A buffer for each processor, if the model keeps stores from others.
pub(crate) fn of(configuration: &Configuration) -> Vec<StoreBuffer> {
    match configuration.model.behaviour().memory_order {
        MemoryOrder::Sequential => Vec::new(),
        MemoryOrder::Tso => {
            let mut seeds = Random(!configuration.seed);
            configuration.topology.cpus().map(|_| StoreBuffer::new(seeds.next())).collect()
        }
    }
}

impl Machine {
    /// Memory shows what a processor has stored, if stores are kept.
    pub(crate) fn lend_stores(&mut self, index: usize) {
        if let Some(buffer) = self.state.stores.get_mut(index)
            && !self.memory.keeps_stores()
        {
            self.memory.lend(std::mem::replace(buffer, StoreBuffer::new(0)));
        }
    }

    /// The same at the beginning of a turn; where one ends whose processor others are `near`.
    pub(crate) fn begin_stores(
        &mut self,
        index: usize,
        at: Picoseconds,
    ) -> Option<(Picoseconds, Picoseconds)> {
        let short = self.state.stores.get_mut(index)?.next_turn();
        let writes = self.memory.watched_writes;
        self.lend_stores(index);
        if self.memory.watched_writes != writes {
            self.release_monitors(at);
        }
        Some((at.saturating_add(NEAR), at.saturating_add(short)))
    }

    /// Memory shows what all see; a turn that is over lets out what is due, and one that ends
    /// asleep all.
    pub(crate) fn take_stores_back(&mut self, turn: Turn, is_over: bool) {
        let index = usize::from(turn.cpu.0);
        let (Some(cpu), Some(slot)) =
            (self.state.cpus.get(index), self.state.stores.get_mut(index))
        else {
            return;
        };
        if is_over && cpu.pending.activity() != Activity::Running {
            self.memory.publish_stores();
        }
        if let Some(buffer) = self.memory.take_back(is_over.then(|| cpu.clock.now())) {
            *slot = buffer;
        }
    }
}

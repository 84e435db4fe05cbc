//! What tests put a device on: memory, an outbox and a clock.

use arch::time::Picoseconds;
use bus::{Context, Effect, GuestMemory, Outbox};

pub(crate) struct Bench {
    pub memory: GuestMemory,
    pub outbox: Outbox,
    pub now: Picoseconds,
}

impl Bench {
    pub fn new() -> Self {
        Self {
            memory: GuestMemory::new(1 << 20),
            outbox: Outbox::default(),
            now: Picoseconds::ZERO,
        }
    }

    pub fn context(&mut self) -> Context<'_> {
        Context { now: self.now, memory: &mut self.memory, outbox: &mut self.outbox }
    }

    /// The effects since the last call, oldest first.
    pub fn effects(&mut self) -> Vec<Effect> {
        self.outbox.drain().map(|(_, _, effect)| effect).collect()
    }

    /// The levels that line `gsi` took since the last call; other effects are dropped.
    pub fn levels(&mut self, gsi: u8) -> Vec<bool> {
        let of_line = |effect| match effect {
            Effect::Line { gsi: line, asserted } if line == gsi => Some(asserted),
            _ => None,
        };
        self.effects().into_iter().filter_map(of_line).collect()
    }
}

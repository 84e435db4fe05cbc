//! Code of processors whose clock software has changed: what a block takes is kept with its code,
//! so each clock has code of its own.

use crate::cost::CostProfile;
use cpu::{CodeCache, Cpu};

/// As many clocks as AMD's parts have P-states, and one more; code for others is decoded again.
const MOST: usize = 4;

/// Decoded code by the core's clock, the clock that ran last being the last.
#[derive(Default)]
pub(crate) struct Clocked {
    caches: Vec<(u64, CodeCache)>,
}

impl Clocked {
    /// Code at a clock, which is executed as `usual` is.
    fn at(&mut self, hertz: u64, costs: &CostProfile, usual: &CodeCache) -> &mut CodeCache {
        let found = self.caches.iter().position(|(known, _)| *known == hertz);
        let cache = match found {
            Some(place) => self.caches.remove(place),
            None => (hertz, usual.alike(costs.instruction_costs_at(hertz))),
        };
        if self.caches.len() >= MOST {
            self.caches.remove(0);
        }
        self.caches.push(cache);
        let last = self.caches.len() - 1;
        &mut self.caches[last].1
    }

    /// Of the code that a processor runs: the `usual`, or at the clock that its software chose.
    pub fn of<'a>(
        &'a mut self,
        cpu: &Cpu,
        costs: &CostProfile,
        usual: &'a mut CodeCache,
    ) -> &'a mut CodeCache {
        match cpu.clock.core_hertz() {
            hertz if hertz == cpu.model.core_hertz() => usual,
            hertz => self.at(hertz, costs, usual),
        }
    }

    /// Whether some clock was not the usual one.
    pub fn is_empty(&self) -> bool {
        self.caches.is_empty()
    }

    /// Forgets everything, for when costs or the way of execution change.
    pub fn clear(&mut self) {
        self.caches.clear();
    }
}

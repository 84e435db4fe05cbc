//! VM exits by reason: how many, and the cycles from the exit to the next entry.

use crate::vendor::Vendor;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};
use runtime::print;

/// The most reasons that are told apart; the last counter is for all others.
const MOST_REASONS: usize = 32;
const OTHER: usize = MOST_REASONS;

struct Counter {
    exits: AtomicU64,
    cycles: AtomicU64,
}

pub struct Statistics<V> {
    counters: [Counter; MOST_REASONS + 1],
    vendor: PhantomData<fn(V)>,
}

impl<V: Vendor> Statistics<V> {
    const FITS: () = assert!(V::REASONS.len() <= MOST_REASONS);

    pub fn new() -> Self {
        const { Self::FITS };
        let counter = || Counter { exits: AtomicU64::new(0), cycles: AtomicU64::new(0) };
        Self { counters: core::array::from_fn(|_| counter()), vendor: PhantomData }
    }

    pub fn count(&self, code: u64, cycles: u64) {
        let known = V::REASONS.iter().position(|(_, reason)| *reason == code);
        let counter = &self.counters[known.unwrap_or(OTHER)];
        counter.exits.fetch_add(1, Ordering::Relaxed);
        counter.cycles.fetch_add(cycles, Ordering::Relaxed);
    }

    /// A record per reason that occurred, and one for their sum.
    pub fn report(&self, feature: &str, guest_cycles: u64) {
        let known = V::REASONS.iter().map(|(name, _)| *name).zip(&self.counters);
        let mut total = 0;
        for (name, counter) in known.chain([("other", &self.counters[OTHER])]) {
            let exits = counter.exits.load(Ordering::Relaxed);
            let cycles = counter.cycles.load(Ordering::Relaxed);
            total += exits;
            if let Some(mean) = cycles.checked_div(exits) {
                print!(
                    "{{\"record\":\"exit\",\"feature\":\"{feature}\",\"reason\":\"{name}\",\
                     \"count\":{exits},\"cycles\":{cycles},\"mean\":{mean}}}"
                );
            }
        }
        print!(
            "{{\"record\":\"exits\",\"feature\":\"{feature}\",\"count\":{total},\
             \"run_cycles\":{guest_cycles}}}"
        );
    }
}

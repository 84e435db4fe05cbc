//! What is on its way to a processor.

use arch::apic::InterruptMessage;
use arch::time::Picoseconds;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What reaches a processor from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arrival {
    /// An interrupt for its local APIC.
    Message(InterruptMessage),
    /// The level of the 8259s' output.
    Lint0(bool),
    /// A doorbell: the guest that it runs has an interrupt.
    Doorbell,
}

/// What is on its way to one processor, in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inbox {
    arrivals: VecDeque<(Picoseconds, Arrival)>,
}

impl Inbox {
    /// Messages that arrive at the same time stay in the order in which they were sent.
    pub fn push(&mut self, at: Picoseconds, arrival: Arrival) {
        let place = self.arrivals.partition_point(|(other, _)| *other <= at);
        self.arrivals.insert(place, (at, arrival));
    }

    /// When the first arrives.
    pub fn next(&self) -> Option<Picoseconds> {
        self.arrivals.front().map(|(at, _)| *at)
    }

    /// The first, if it has arrived.
    pub fn take(&mut self, now: Picoseconds) -> Option<Arrival> {
        if self.next()? <= now {
            self.arrivals.pop_front().map(|(_, arrival)| arrival)
        } else {
            None
        }
    }
}

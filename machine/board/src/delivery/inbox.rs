//! What is on its way to a processor.

use crate::topology::Distance;
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
    /// What has been sent here, for the board's owner; no part of the machine's state.
    #[serde(skip)]
    messages: Messages,
}

/// Messages and doorbells by how far they travelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// From processors, in the order of [`Distance`].
    pub by_distance: [u64; Distance::COUNT],
    /// From devices and I/O APICs.
    pub of_devices: u64,
}

impl Messages {
    /// Those that have come since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            by_distance: std::array::from_fn(|distance| {
                self.by_distance[distance].wrapping_sub(earlier.by_distance[distance])
            }),
            of_devices: self.of_devices.wrapping_sub(earlier.of_devices),
        }
    }

    fn of(&mut self, distance: Option<Distance>) -> &mut u64 {
        match distance {
            Some(distance) => &mut self.by_distance[distance as usize],
            None => &mut self.of_devices,
        }
    }
}

impl Inbox {
    /// Something was sent here from so far; `None`: by a device.
    pub fn note_message(&mut self, distance: Option<Distance>) {
        *self.messages.of(distance) += 1;
    }

    /// What has been sent here.
    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// Messages that arrive at the same time stay in the order in which they were sent.
    pub fn push(&mut self, at: Picoseconds, arrival: Arrival) {
        if self.arrivals.back().is_none_or(|(other, _)| *other <= at) {
            return self.arrivals.push_back((at, arrival));
        }
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

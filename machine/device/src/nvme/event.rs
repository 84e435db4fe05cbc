//! Events that the controller tells by completing requests that wait for them.
//! [NVME "Asynchronous Event Request command"]

use arch::nvme::identify::log;
use serde::{Deserialize, Serialize};

/// Requests that wait at a time.
pub(super) const MAXIMUM_REQUESTS: usize = 4;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Event {
    /// A doorbell of no queue was written.
    InvalidDoorbellRegister,
    /// A doorbell was given a place that is none, or cannot be reached.
    InvalidDoorbellValue,
    /// The temperature is beyond its threshold.
    Temperature,
}

impl Event {
    /// Event type, event information and the log page that tells more.
    const fn parts(self) -> (u8, u8, u8) {
        match self {
            Self::InvalidDoorbellRegister => (0, 0, log::ERROR),
            Self::InvalidDoorbellValue => (0, 1, log::ERROR),
            Self::Temperature => (1, 1, log::HEALTH),
        }
    }

    /// Dword 0 of the completion.
    pub const fn result(self) -> u32 {
        let (kind, information, page) = self.parts();
        (page as u32) << 16 | (information as u32) << 8 | kind as u32
    }
}

/// Requests that wait, and events that wait for one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Events {
    /// Command identifiers.
    requests: Vec<u16>,
    raised: Vec<Event>,
    /// Types that were told, a bit each, until their log page is read.
    masked: u8,
}

impl Events {
    pub fn has_request(&self, identifier: u16) -> bool {
        self.requests.contains(&identifier)
    }

    /// Keeps a request; false if there are enough.
    pub fn take_request(&mut self, identifier: u16) -> bool {
        let has_room = self.requests.len() < MAXIMUM_REQUESTS;
        if has_room {
            self.requests.push(identifier);
        }
        has_room
    }

    /// Something happened; of a type that is masked, the log page has it.
    pub fn raise(&mut self, event: Event) {
        if self.masked & 1 << event.parts().0 == 0 && !self.raised.contains(&event) {
            self.raised.push(event);
        }
    }

    /// The oldest event with the request that it is told by. Its type is masked from here on.
    pub fn next(&mut self) -> Option<(u16, Event)> {
        let event = *self.raised.first()?;
        let request = *self.requests.first()?;
        self.requests.remove(0);
        let kind = event.parts().0;
        self.raised.retain(|other| other.parts().0 != kind);
        self.masked |= 1 << kind;
        Some((request, event))
    }

    /// A log page was read: events that it tells of may come again.
    pub fn clear(&mut self, page: u8) {
        for event in [Event::InvalidDoorbellRegister, Event::Temperature] {
            if event.parts().2 == page {
                self.masked &= !(1 << event.parts().0);
            }
        }
    }
}

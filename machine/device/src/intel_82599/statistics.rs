//! The counters that drivers read. They wrap, and a reset of the function does not clear them.
//! [82599 "VF Statistics"]

use arch::intel_82599::register;
use serde::{Deserialize, Serialize};

const CHECK_SEQUENCE: u64 = 4;

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Statistics {
    frames_sent: u64,
    bytes_sent: u64,
    frames_received: u64,
    bytes_received: u64,
    multicast_received: u64,
}

impl Statistics {
    pub fn sent(&mut self, frame: &[u8]) {
        self.frames_sent += 1;
        self.bytes_sent += frame.len() as u64 + CHECK_SEQUENCE;
    }

    pub fn received(&mut self, frame: &[u8]) {
        self.frames_received += 1;
        self.bytes_received += frame.len() as u64 + CHECK_SEQUENCE;
        let is_multicast = frame.first().is_some_and(|first| first & 1 != 0);
        self.multicast_received += u64::from(is_multicast);
    }

    /// Nothing where no counter is.
    pub fn read(&self, offset: u64) -> Option<u32> {
        let value = match offset {
            register::FRAMES_RECEIVED => self.frames_received,
            register::BYTES_RECEIVED => self.bytes_received,
            register::BYTES_RECEIVED_HIGH => self.bytes_received >> 32 & 0xF,
            register::MULTICAST_RECEIVED => self.multicast_received,
            register::FRAMES_SENT => self.frames_sent,
            register::BYTES_SENT => self.bytes_sent,
            register::BYTES_SENT_HIGH => self.bytes_sent >> 32 & 0xF,
            _ => return None,
        };
        Some(value as u32)
    }
}

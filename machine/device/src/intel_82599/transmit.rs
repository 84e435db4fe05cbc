//! Transmit queues: descriptors to packets, one packet at a time. [82599 "Transmit Functionality"]
//!
//! DEVIATION(82599 "Transmit Write-Back"): a descriptor that reports is written back when its
//! packet has left, whatever the write-back threshold; the head is not written to memory.
//! DEVIATION(82599 "Legacy Transmit Descriptor Format"): checksums are not inserted for it.

use super::mailbox::QUEUES;
use super::offload::Packet;
use super::ring::Ring;
use crate::pci::Attachment;
use arch::intel_82599::descriptor::{KIND_CONTEXT, TransmitContext, TransmitData};
use bus::DmaFault;
use serde::{Deserialize, Serialize};

/// Descriptors of one packet; more are a driver's mistake.
const MOST_DESCRIPTORS: u32 = 64;
/// Bytes of one packet: what 18 bits of payload length can say.
const MOST_BYTES: usize = 1 << 18;
/// The status dword of a descriptor that is done.
const DONE: u32 = 1;
const STATUS_AT: u64 = 12;

/// The queues, and whose turn it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Transmitter {
    pub rings: [Ring; QUEUES],
    contexts: [[TransmitContext; 2]; QUEUES],
    turn: usize,
    /// Packets that were given up: without an end, too long, refused by memory.
    pub lost: u64,
}

/// A packet that the function has fetched.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Fetched {
    pub packet: Packet,
    pub queue: usize,
    /// Where its last descriptor is, if that wants to be written back.
    report: Option<u64>,
}

/// What walking a packet's descriptors came to.
enum Walk {
    Packet(Vec<u8>, TransmitData, Option<u64>),
    /// Its end has not been handed over yet.
    Unfinished,
    Broken,
}

impl Transmitter {
    /// The next packet of the next queue that has one.
    pub fn fetch(&mut self, port: &mut Attachment) -> Option<Fetched> {
        for ahead in 0..QUEUES {
            let queue = (self.turn + ahead) % QUEUES;
            if let Some(fetched) = self.fetch_from(port, queue) {
                self.turn = (queue + 1) % QUEUES;
                return Some(fetched);
            }
        }
        None
    }

    fn fetch_from(&mut self, port: &mut Attachment, queue: usize) -> Option<Fetched> {
        // Bounded: each turn uses up a descriptor at least, or is the last.
        while self.rings[queue].available() > 0 {
            let (walk, used) = match self.walk(port, queue) {
                Ok(found) => found,
                // A descriptor that cannot be read is too, so that the queue does not stand still.
                Err(DmaFault(_)) => (Walk::Broken, 1),
            };
            match walk {
                Walk::Unfinished => return None,
                Walk::Broken => self.lost += 1,
                Walk::Packet(bytes, command, report) => {
                    let context = self.contexts[queue][usize::from(command.context() & 1)];
                    self.rings[queue].consume(used);
                    let packet = Packet::new(bytes, command, context);
                    return Some(Fetched { packet, queue, report });
                }
            }
            self.rings[queue].consume(used);
        }
        None
    }

    /// Reads descriptors up to a packet's last one, and how many they were.
    fn walk(&mut self, port: &mut Attachment, queue: usize) -> Result<(Walk, u32), DmaFault> {
        let ring = &self.rings[queue];
        let available = ring.available();
        let mut first = None;
        let mut bytes = Vec::new();
        let mut is_refused = false;
        for ahead in 0..available.min(MOST_DESCRIPTORS) {
            let at = ring.address(ring.index(ahead));
            let mut raw = [0; 16];
            port.read(at, &mut raw)?;
            let whole = u128::from_le_bytes(raw);
            let command = TransmitData::from_bits((whole >> 64) as u64);
            if command.is_advanced() && command.kind() == KIND_CONTEXT {
                let context = TransmitContext::from_bits(whole);
                self.contexts[queue][usize::from(context.index() & 1)] = context;
                continue;
            }
            let length = usize::from(command.length());
            if bytes.len() + length > MOST_BYTES {
                return Ok((Walk::Broken, ahead + 1));
            }
            let start = bytes.len();
            bytes.resize(start + length, 0);
            // A packet of which memory refused a part is passed over whole.
            is_refused |= port.read(whole as u64, &mut bytes[start..]).is_err();
            let first = *first.get_or_insert(command);
            if command.is_last() && is_refused {
                return Ok((Walk::Broken, ahead + 1));
            }
            if command.is_last() {
                let first = if first.is_advanced() { first } else { TransmitData::new() };
                let report = command.reports().then_some(at);
                return Ok((Walk::Packet(bytes, first, report), ahead + 1));
            }
        }
        let is_endless = available >= MOST_DESCRIPTORS;
        Ok(if is_endless { (Walk::Broken, MOST_DESCRIPTORS) } else { (Walk::Unfinished, 0) })
    }

    /// A packet has left; whether its queue's interrupt is wanted.
    pub fn finish(port: &mut Attachment, fetched: &Fetched) -> bool {
        let Some(at) = fetched.report else { return false };
        port.write(at.wrapping_add(STATUS_AT), &DONE.to_le_bytes()).is_ok()
    }
}

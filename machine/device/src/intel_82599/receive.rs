//! Receive queues: frames to descriptors. [82599 "Receive Functionality"]
//!
//! DEVIATION(82599 "RSS"): there is no hash; every frame goes to the first queue that is enabled.
//! DEVIATION(82599 "Header Splitting"): buffers take frames from their first byte on, whatever the
//! descriptors' type.

use super::mailbox::QUEUES;
use super::ring::Ring;
use crate::packet::{Contents, VLAN_TAG};
use crate::pci::Attachment;
use arch::intel_82599::descriptor::{PacketType, ReceivedHead, ReceivedTail};
use arch::intel_82599::register::{ReceiveControl, queue};
use bus::DmaFault;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Bytes of frames that wait for descriptors where the queue does not drop them: the part's whole
/// packet buffer.
const MOST_WAITING: usize = 512 << 10;
const BUFFER_UNIT: usize = 1024;
const ADDRESSES: usize = 12;

/// A queue's registers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct ReceiveQueue {
    ring: Ring,
    control: ReceiveControl,
    coalescing: u32,
}

impl ReceiveQueue {
    pub fn read(&self, offset: u64) -> u32 {
        match offset {
            queue::RECEIVE_CONTROL => self.control.into_bits(),
            queue::COALESCING => self.coalescing,
            _ => self.ring.read(offset),
        }
    }

    pub fn write(&mut self, offset: u64, value: u32) {
        match offset {
            queue::RECEIVE_CONTROL => self.control = ReceiveControl::from_bits(value),
            queue::COALESCING => self.coalescing = value,
            _ => self.ring.write(offset, value),
        }
    }

    fn buffer(&self) -> usize {
        usize::from(self.control.buffer_kib().max(1)) * BUFFER_UNIT
    }
}

/// A frame from the wire, with what was found in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived<'a> {
    pub frame: &'a [u8],
    pub contents: Contents,
    pub vlan: Option<u16>,
}

/// The queues, and frames that wait for descriptors.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Receiver {
    pub queues: [ReceiveQueue; QUEUES],
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is in the buffers of this queue.
    Delivered(usize),
    /// It waits for descriptors.
    Waits,
    /// No queue takes it, or memory refused it.
    Dropped,
}

impl Receiver {
    /// The queue that frames go to.
    fn queue(&self) -> Option<usize> {
        self.queues.iter().position(|queue| queue.ring.control.is_enabled())
    }

    /// Whether frames can be received at all.
    pub fn is_enabled(&self) -> bool {
        self.queue().is_some()
    }

    /// Puts a frame into buffers, or behind those that wait.
    pub fn take(&mut self, port: &mut Attachment, arrived: Arrived) -> Outcome {
        let Some(index) = self.queue() else { return Outcome::Dropped };
        let queue = &mut self.queues[index];
        if self.waiting.is_empty()
            && let Some(delivered) = queue.deliver(port, arrived)
        {
            return delivered.map_or(Outcome::Dropped, |()| Outcome::Delivered(index));
        }
        let bytes = self.waiting_bytes + arrived.frame.len();
        if queue.control.drops() || bytes > MOST_WAITING {
            return Outcome::Dropped;
        }
        self.waiting.push_back(arrived.frame.to_vec());
        self.waiting_bytes = bytes;
        Outcome::Waits
    }

    /// The frame that has waited longest, if there are descriptors for it now.
    pub fn next_waiting(&mut self) -> Option<Vec<u8>> {
        let queue = &self.queues[self.queue()?];
        let needed = self.waiting.front()?.len().div_ceil(queue.buffer());
        if (queue.ring.available() as usize) < needed {
            return None;
        }
        let frame = self.waiting.pop_front()?;
        self.waiting_bytes -= frame.len();
        Some(frame)
    }

    /// A frame from [`Self::next_waiting`] goes into its buffers.
    pub fn take_waiting(&mut self, port: &mut Attachment, arrived: Arrived) -> Outcome {
        let Some(index) = self.queue() else { return Outcome::Dropped };
        match self.queues[index].deliver(port, arrived) {
            Some(Ok(())) => Outcome::Delivered(index),
            _ => Outcome::Dropped,
        }
    }
}

impl ReceiveQueue {
    /// Nothing where there are too few descriptors.
    fn deliver(&mut self, port: &mut Attachment, arrived: Arrived) -> Option<Result<(), DmaFault>> {
        let stripped;
        let has_tag = arrived.vlan.is_some() && self.ring.control.strips_vlan();
        let mut frame = arrived.frame;
        if has_tag && frame.len() >= ADDRESSES + VLAN_TAG {
            stripped = [&frame[..ADDRESSES], &frame[ADDRESSES + VLAN_TAG..]].concat();
            frame = &stripped;
        }
        let pieces = frame.chunks(self.buffer());
        let count = pieces.len() as u32;
        if self.ring.available() < count {
            return None;
        }
        let tag = arrived.vlan.filter(|_| has_tag);
        for (ahead, piece) in (0..count).zip(pieces) {
            let tail = status(&arrived.contents, tag)
                .with_is_last(ahead + 1 == count)
                .with_length(piece.len() as u16);
            if let Err(fault) = self.fill(port, ahead, piece, arrived.contents.kind, tail) {
                self.ring.consume(ahead + 1);
                return Some(Err(fault));
            }
        }
        self.ring.consume(count);
        Some(Ok(()))
    }

    fn fill(
        &self,
        port: &mut Attachment,
        ahead: u32,
        piece: &[u8],
        kind: PacketType,
        tail: ReceivedTail,
    ) -> Result<(), DmaFault> {
        let at = self.ring.address(self.ring.index(ahead));
        let mut buffer = [0; 8];
        port.read(at, &mut buffer)?;
        port.write(u64::from_le_bytes(buffer), piece)?;
        let head = ReceivedHead::new().with_packet_type(kind.bits());
        let mut written = [0; 16];
        written[..8].copy_from_slice(&head.into_bits().to_le_bytes());
        written[8..].copy_from_slice(&tail.into_bits().to_le_bytes());
        port.write(at, &written)
    }
}

/// [82599 "Receive Checksum Offloading"]
fn status(contents: &Contents, vlan: Option<u16>) -> ReceivedTail {
    let is_l4_checked = contents.layer_4_fits.is_some();
    ReceivedTail::new()
        .with_is_done(true)
        .with_has_vlan(vlan.is_some())
        .with_vlan_tag(vlan.unwrap_or(0))
        .with_is_ip_checked(contents.ip_fits.is_some())
        .with_has_bad_ip_checksum(contents.ip_fits == Some(false))
        .with_is_l4_checked(is_l4_checked)
        .with_is_udp_checked(is_l4_checked && contents.kind.contains(PacketType::UDP))
        .with_has_bad_l4_checksum(contents.layer_4_fits == Some(false))
}

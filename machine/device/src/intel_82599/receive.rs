//! Receive queues: frames to descriptors. [82599 "Receive Functionality"]
//!
//! DEVIATION(82599 "Header Splitting"): buffers take frames from their first byte on, whatever the
//! descriptors' type.

use super::hash;
use super::mailbox::QUEUES;
use super::ring::Ring;
use crate::packet::{Contents, VLAN_TAG};
use crate::pci::Attachment;
use arch::intel_82599::descriptor::{HashType, PacketType, ReceivedHead, ReceivedTail};
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
    hash: (HashType, u32),
}

impl<'a> Arrived<'a> {
    pub fn new(frame: &'a [u8], contents: Contents, vlan: Option<u16>) -> Self {
        let hash = hash::of(frame, &contents, vlan.is_some());
        Self { frame, contents, vlan, hash }
    }
}

/// The queues, and frames that wait for descriptors.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Receiver {
    pub queues: [ReceiveQueue; QUEUES],
    /// Each with its queue's number.
    waiting: VecDeque<(usize, Vec<u8>)>,
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
    /// Whether frames can be received at all.
    pub fn is_enabled(&self) -> bool {
        self.queues.iter().any(|queue| queue.ring.control.is_enabled())
    }

    /// Frames that wait for a queue that was switched off are lost; how many they were.
    pub fn forget(&mut self) -> u64 {
        let before = self.waiting.len();
        let queues = &self.queues;
        self.waiting.retain(|(queue, _)| queues[*queue].ring.control.is_enabled());
        self.waiting_bytes = self.waiting.iter().map(|(_, frame)| frame.len()).sum();
        (before - self.waiting.len()) as u64
    }

    /// The queue of a hash, or the one that is enabled.
    fn queue(&self, hash: u32) -> Option<usize> {
        let wanted = hash as usize % QUEUES;
        let enabled = |queue: &usize| self.queues[*queue].ring.control.is_enabled();
        (wanted..QUEUES).chain(0..wanted).find(enabled)
    }

    /// Puts a frame into buffers, or behind those that wait.
    pub fn take(&mut self, port: &mut Attachment, arrived: Arrived) -> Outcome {
        let Some(index) = self.queue(arrived.hash.1) else { return Outcome::Dropped };
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
        self.waiting.push_back((index, arrived.frame.to_vec()));
        self.waiting_bytes = bytes;
        Outcome::Waits
    }

    /// The frame that has waited longest, if there are descriptors for it now.
    pub fn next_waiting(&mut self) -> Option<Vec<u8>> {
        let (index, frame) = self.waiting.front()?;
        let queue = &self.queues[*index];
        if (queue.ring.available() as usize) < frame.len().div_ceil(queue.buffer()) {
            return None;
        }
        let (_, frame) = self.waiting.pop_front()?;
        self.waiting_bytes -= frame.len();
        Some(frame)
    }

    /// A frame from [`Self::next_waiting`] goes into its buffers.
    pub fn take_waiting(&mut self, port: &mut Attachment, arrived: Arrived) -> Outcome {
        let Some(index) = self.queue(arrived.hash.1) else { return Outcome::Dropped };
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
            let head = ReceivedHead::new()
                .with_packet_type(arrived.contents.kind.bits())
                .with_hash_type(arrived.hash.0 as u8)
                .with_hash(arrived.hash.1);
            if let Err(fault) = self.fill(port, ahead, piece, head, tail) {
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
        head: ReceivedHead,
        tail: ReceivedTail,
    ) -> Result<(), DmaFault> {
        let at = self.ring.address(self.ring.index(ahead));
        let mut buffer = [0; 8];
        port.read(at, &mut buffer)?;
        port.write(u64::from_le_bytes(buffer), piece)?;
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

//! The network device, wired to a [`PacketSource`]. [VIRTIO "Network Device"]

use super::queue::{Broken, Queue};
use super::round::{Budget, Progress, Served, serve_each};
use crate::lanes;
use crate::packet_source::{MAXIMUM_FRAME, PacketSource};
use crate::pci::Attachment;
use arch::time::Picoseconds;
use bitflags::bitflags;
use serde::{Deserialize, Serialize};

bitflags! {
    struct Feature: u64 {
        const MTU = 1 << 3;
        const MAC = 1 << 5;
        const STATUS = 1 << 16;
    }
}

const RECEIVE: usize = 0;
const LINK_UP: u16 = 1;
const MTU: u16 = 1500;
/// The header before each frame, with the count of merged buffers.
const HEADER_SIZE: usize = 12;
const BUFFER_COUNT_AT: usize = 10;

/// A network device with one pair of queues, and what is at the end of its cable.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Network {
    mac: [u8; 6],
    /// The peer at the other end of the cable.
    pub source: PacketSource,
}

impl Network {
    /// A device with this hardware address; its link is always up.
    pub fn new(mac: [u8; 6], source: PacketSource) -> Self {
        Self { mac, source }
    }

    pub(super) fn features(&self) -> u64 {
        (Feature::MTU | Feature::MAC | Feature::STATUS).bits()
    }

    /// MAC, status, queue pairs, MTU.
    pub(super) fn read_configuration(&self, offset: u64, size: u8) -> u32 {
        let mut bytes = [0; HEADER_SIZE];
        bytes[..6].copy_from_slice(&self.mac);
        bytes[6..8].copy_from_slice(&LINK_UP.to_le_bytes());
        bytes[8..10].copy_from_slice(&1u16.to_le_bytes());
        bytes[10..12].copy_from_slice(&MTU.to_le_bytes());
        lanes::load(&bytes, offset, size) as u32
    }

    pub(super) fn next_deadline(&self) -> Option<Picoseconds> {
        self.source.next_deadline()
    }

    pub(super) fn process(
        &mut self,
        queues: &mut [Queue],
        index: usize,
        port: &mut Attachment,
        budget: &mut Budget,
    ) -> Result<Progress, Broken> {
        let (receive, transmit) = queues.split_at_mut(RECEIVE + 1);
        let mut progress = Progress::Idle;
        if index != RECEIVE
            && let Some(queue) = transmit.first_mut()
        {
            progress = self.transmit(queue, port, budget)?;
        }
        // Answers go back at once, and new buffers are for what has been waiting.
        let Some(queue) = receive.first_mut() else { return Ok(progress) };
        let received = self.receive(queue, port, budget)?;
        Ok(progress.max(received))
    }

    fn transmit(
        &mut self,
        queue: &mut Queue,
        port: &mut Attachment,
        budget: &mut Budget,
    ) -> Result<Progress, Broken> {
        serve_each(queue, port, budget, |chain, port| {
            let length = chain.readable_length().saturating_sub(HEADER_SIZE as u64);
            // Nothing longer fits the wire; there is no segmentation offload.
            if length <= MAXIMUM_FRAME as u64 {
                let mut frame = vec![0; length as usize];
                chain.read(port, HEADER_SIZE as u64, &mut frame)?;
                self.source.accept(&frame);
            }
            Ok(Served { written: 0, moved: length.min(MAXIMUM_FRAME as u64) })
        })
    }

    fn receive(
        &mut self,
        queue: &mut Queue,
        port: &mut Attachment,
        budget: &mut Budget,
    ) -> Result<Progress, Broken> {
        while budget.allows_more() {
            let Some(frame) = self.source.front() else { return Ok(Progress::Idle) };
            let Some(chain) = queue.pop(port)? else { return Ok(Progress::Idle) };
            let length = HEADER_SIZE + frame.len();
            let mut written = 0;
            // A buffer that is too small is returned empty, and the frame waits for the next.
            if chain.writable_length() >= length as u64 {
                let mut header = [0; HEADER_SIZE];
                header[BUFFER_COUNT_AT] = 1;
                chain.write(port, 0, &header)?;
                chain.write(port, HEADER_SIZE as u64, frame)?;
                self.source.pop_delivered();
                written = length as u32;
            }
            budget.spend(u64::from(written));
            queue.push(port, &chain, written)?;
        }
        Ok(Progress::HasMore)
    }
}

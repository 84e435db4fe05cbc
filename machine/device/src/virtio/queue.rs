//! Split virtqueues, read and written through the function's own memory accesses.
//! [VIRTIO "Split Virtqueues"]
//!
//! Everything in a queue is the guest's word and may change at any moment: each value is read once
//! and checked, each walk is bounded by the queue's size. A queue that breaks a rule is not used
//! any more; the device then asks for a reset.

use super::chain::{Chain, Segment};
use crate::pci::Attachment;
use serde::{Deserialize, Serialize};

pub const MAXIMUM_SIZE: u16 = 256;
pub const NO_VECTOR: u16 = 0xFFFF;

/// The guest broke a rule of the queue, or its memory cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

impl From<bus::DmaFault> for Broken {
    fn from(_: bus::DmaFault) -> Self {
        Self
    }
}

mod flag {
    pub const NEXT: u16 = 1;
    pub const WRITE: u16 = 2;
    pub const INDIRECT: u16 = 4;
    /// In the available ring: the driver wants no interrupts.
    pub const NO_INTERRUPT: u16 = 1;
}

const DESCRIPTOR_SIZE: u64 = 16;
/// Flags and index precede the entries of both rings.
const RING_HEADER: u64 = 4;

#[derive(Clone, Copy, Debug)]
struct Descriptor {
    address: u64,
    length: u32,
    flags: u16,
    next: u16,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Queue {
    pub(super) size: u16,
    pub(super) is_enabled: bool,
    pub(super) vector: u16,
    pub(super) descriptors: u64,
    /// The available ring.
    pub(super) driver: u64,
    /// The used ring.
    pub(super) device: u64,
    pub(super) has_indirect: bool,
    pub(super) has_event_index: bool,
    next_available: u16,
    next_used: u16,
    /// The used index when the driver was last told.
    told_used: u16,
    pub(super) is_broken: bool,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            size: MAXIMUM_SIZE,
            is_enabled: false,
            vector: NO_VECTOR,
            descriptors: 0,
            driver: 0,
            device: 0,
            has_indirect: false,
            has_event_index: false,
            next_available: 0,
            next_used: 0,
            told_used: 0,
            is_broken: false,
        }
    }
}

impl Queue {
    /// What the registers show where a device has no queue.
    pub(super) fn absent() -> Self {
        Self { size: 0, ..Self::default() }
    }

    pub fn is_usable(&self) -> bool {
        self.is_enabled && !self.is_broken && self.size.is_power_of_two()
    }

    /// The next chain that the driver made available.
    pub fn pop(&mut self, port: &mut Attachment) -> Result<Option<Chain>, Broken> {
        if !self.is_usable() {
            return Ok(None);
        }
        let waiting = self.waiting(port)?;
        if waiting == 0 {
            return Ok(None);
        }
        let slot = u64::from(self.next_available % self.size);
        let head = read_u16(port, self.driver.wrapping_add(RING_HEADER + slot * 2))?;
        let chain = self.collect(port, head)?;
        self.next_available = self.next_available.wrapping_add(1);
        Ok(Some(chain))
    }

    /// Returns a chain into which `written` bytes were written.
    pub fn push(
        &mut self,
        port: &mut Attachment,
        chain: &Chain,
        written: u32,
    ) -> Result<(), Broken> {
        let slot = u64::from(self.next_used % self.size);
        let mut element = [0; 8];
        element[..4].copy_from_slice(&u32::from(chain.head).to_le_bytes());
        element[4..].copy_from_slice(&written.to_le_bytes());
        port.write(self.device.wrapping_add(RING_HEADER + slot * 8), &element)?;
        self.next_used = self.next_used.wrapping_add(1);
        port.write(self.device.wrapping_add(2), &self.next_used.to_le_bytes())?;
        Ok(())
    }

    /// Ends a round: says from where on notifications are wanted, and whether the driver wants to
    /// be told of what was pushed. [VIRTIO "Used Buffer Notification Suppression"]
    pub fn finish(&mut self, port: &mut Attachment) -> Result<bool, Broken> {
        if !self.is_usable() {
            return Ok(false);
        }
        let size = u64::from(self.size);
        if self.has_event_index {
            let event = self.device.wrapping_add(RING_HEADER + size * 8);
            port.write(event, &self.next_available.to_le_bytes())?;
        }
        let (before, now) = (self.told_used, self.next_used);
        if before == now {
            return Ok(false);
        }
        self.told_used = now;
        if self.has_event_index {
            let event = read_u16(port, self.driver.wrapping_add(RING_HEADER + size * 2))?;
            let since_event = now.wrapping_sub(event).wrapping_sub(1);
            Ok(since_event < now.wrapping_sub(before))
        } else {
            Ok(read_u16(port, self.driver)? & flag::NO_INTERRUPT == 0)
        }
    }

    /// How many chains wait. More than the queue holds is a broken queue.
    fn waiting(&self, port: &mut Attachment) -> Result<u16, Broken> {
        let index = read_u16(port, self.driver.wrapping_add(2))?;
        let waiting = index.wrapping_sub(self.next_available);
        if waiting > self.size { Err(Broken) } else { Ok(waiting) }
    }

    fn collect(&self, port: &mut Attachment, head: u16) -> Result<Chain, Broken> {
        let mut chain = Chain::new(head);
        let first = self.descriptor(port, head)?;
        if first.flags & flag::INDIRECT == 0 {
            let table = Table { address: self.descriptors, entries: self.size, limit: self.size };
            return table.walk(port, first, &mut chain).map(|()| chain);
        }
        let entries = first.length / DESCRIPTOR_SIZE as u32;
        let is_whole = first.length % DESCRIPTOR_SIZE as u32 == 0;
        let is_allowed = self.has_indirect && first.flags & flag::NEXT == 0;
        if !is_allowed || !is_whole || entries == 0 || entries > u32::from(u16::MAX) {
            return Err(Broken);
        }
        let table = Table { address: first.address, entries: entries as u16, limit: self.size };
        let first = read_descriptor(port, table.address)?;
        table.walk(port, first, &mut chain).map(|()| chain)
    }

    fn descriptor(&self, port: &mut Attachment, index: u16) -> Result<Descriptor, Broken> {
        if index >= self.size {
            return Err(Broken);
        }
        let offset = u64::from(index) * DESCRIPTOR_SIZE;
        read_descriptor(port, self.descriptors.wrapping_add(offset))
    }
}

/// A table that a chain is walked in: the queue's own or an indirect one.
struct Table {
    address: u64,
    entries: u16,
    /// Descriptors that a chain may have: no more than the queue's size, indirect or not.
    limit: u16,
}

impl Table {
    fn walk(
        &self,
        port: &mut Attachment,
        first: Descriptor,
        chain: &mut Chain,
    ) -> Result<(), Broken> {
        let mut descriptor = first;
        for _ in 0..self.limit {
            if descriptor.flags & flag::INDIRECT != 0 {
                return Err(Broken);
            }
            let segment = Segment { address: descriptor.address, length: descriptor.length };
            if descriptor.flags & flag::WRITE != 0 {
                chain.writable.push(segment);
            } else if chain.writable.is_empty() {
                chain.readable.push(segment);
            } else {
                // What the device reads comes before what it writes.
                return Err(Broken);
            }
            if descriptor.flags & flag::NEXT == 0 {
                return if chain.has_sane_length() { Ok(()) } else { Err(Broken) };
            }
            if descriptor.next >= self.entries {
                return Err(Broken);
            }
            let offset = u64::from(descriptor.next) * DESCRIPTOR_SIZE;
            descriptor = read_descriptor(port, self.address.wrapping_add(offset))?;
        }
        Err(Broken)
    }
}

fn read_u16(port: &mut Attachment, address: u64) -> Result<u16, Broken> {
    let mut bytes = [0; 2];
    port.read(address, &mut bytes)?;
    Ok(u16::from_le_bytes(bytes))
}

fn read_descriptor(port: &mut Attachment, address: u64) -> Result<Descriptor, Broken> {
    let mut bytes = [0; DESCRIPTOR_SIZE as usize];
    port.read(address, &mut bytes)?;
    let word = u128::from_le_bytes(bytes);
    Ok(Descriptor {
        address: word as u64,
        length: (word >> 64) as u32,
        flags: (word >> 96) as u16,
        next: (word >> 112) as u16,
    })
}

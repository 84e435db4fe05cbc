//! The block device. [VIRTIO "Block Device"]

use super::chain::Chain;
use super::queue::{Broken, Queue};
use super::round::{Budget, Progress, Served, serve_each};
use crate::lanes;
use crate::pci::Attachment;
use crate::storage::{Disk, SECTOR_SIZE};
use bitflags::bitflags;
use serde::{Deserialize, Serialize};

bitflags! {
    struct Feature: u64 {
        const SEGMENT_MAXIMUM = 1 << 2;
        const READ_ONLY = 1 << 5;
        const BLOCK_SIZE = 1 << 6;
        const FLUSH = 1 << 9;
    }
}

mod request {
    pub const READ: u32 = 0;
    pub const WRITE: u32 = 1;
    pub const FLUSH: u32 = 4;
    pub const GET_ID: u32 = 8;
}

const OK: u8 = 0;
const IO_ERROR: u8 = 1;
const UNSUPPORTED: u8 = 2;

const HEADER_SIZE: u64 = 16;
/// Segments of data that fit a chain beside header and status.
const SEGMENT_MAXIMUM: u32 = super::queue::MAXIMUM_SIZE as u32 - 2;
/// Longest transfer of one request.
const MAXIMUM_TRANSFER: u64 = 16 << 20;
const PIECE: usize = 64 << 10;
const ID_SIZE: usize = 20;
const CONFIGURATION_SIZE: usize = 24;

/// A disk as a block device: one queue, requests served in order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Block {
    /// What the requests read and write.
    pub disk: Disk,
    /// What GET_ID answers, up to 20 bytes.
    pub serial: String,
}

impl Block {
    pub(super) fn features(&self) -> u64 {
        let read_only =
            if self.disk.is_read_only() { Feature::READ_ONLY } else { Feature::empty() };
        (Feature::SEGMENT_MAXIMUM | Feature::BLOCK_SIZE | Feature::FLUSH | read_only).bits()
    }

    /// Capacity, (segment size), segments, (geometry), block size.
    pub(super) fn read_configuration(&self, offset: u64, size: u8) -> u32 {
        let mut bytes = [0; CONFIGURATION_SIZE];
        bytes[..8].copy_from_slice(&self.disk.sectors().to_le_bytes());
        bytes[12..16].copy_from_slice(&SEGMENT_MAXIMUM.to_le_bytes());
        bytes[20..24].copy_from_slice(&(SECTOR_SIZE as u32).to_le_bytes());
        lanes::load(&bytes, offset, size) as u32
    }

    pub(super) fn process(
        &mut self,
        queue: &mut Queue,
        port: &mut Attachment,
        budget: &mut Budget,
    ) -> Result<Progress, Broken> {
        serve_each(queue, port, budget, |chain, port| {
            let written = self.serve(chain, port)?;
            let read = chain.readable_length().min(MAXIMUM_TRANSFER);
            Ok(Served { written, moved: read + u64::from(written) })
        })
    }

    /// Serves a request; gives the bytes written to the guest, status included.
    fn serve(&mut self, chain: &Chain, port: &mut Attachment) -> Result<u32, Broken> {
        // The status is the last byte the device may write; without one nothing can be said.
        let Some(status_at) = chain.writable_length().checked_sub(1) else { return Err(Broken) };
        let mut header = [0; HEADER_SIZE as usize];
        if chain.read(port, 0, &mut header)? < header.len() {
            return Err(Broken);
        }
        let kind = lanes::load(&header, 0, 4) as u32;
        let sector = lanes::load(&header, 8, 8);
        let (status, written) = match kind {
            request::READ => self.read(chain, port, sector, status_at)?,
            request::WRITE => (self.write(chain, port, sector)?, 0),
            request::FLUSH => (self.disk.flush().map_or(IO_ERROR, |()| OK), 0),
            request::GET_ID => self.identify(chain, port, status_at)?,
            _ => (UNSUPPORTED, 0),
        };
        chain.write(port, status_at, &[status])?;
        Ok(written as u32 + 1)
    }

    fn read(
        &mut self,
        chain: &Chain,
        port: &mut Attachment,
        sector: u64,
        length: u64,
    ) -> Result<(u8, u64), Broken> {
        if length > MAXIMUM_TRANSFER || !self.disk.holds(sector, length) {
            return Ok((IO_ERROR, 0));
        }
        let mut buffer = vec![0; PIECE.min(length as usize)];
        let mut done = 0;
        while done < length {
            let piece = &mut buffer[..PIECE.min((length - done) as usize)];
            if self.disk.read(sector + done / SECTOR_SIZE as u64, piece).is_err() {
                return Ok((IO_ERROR, done));
            }
            chain.write(port, done, piece)?;
            done += piece.len() as u64;
        }
        Ok((OK, done))
    }

    fn write(&mut self, chain: &Chain, port: &mut Attachment, sector: u64) -> Result<u8, Broken> {
        let length = chain.readable_length() - HEADER_SIZE;
        if length > MAXIMUM_TRANSFER || !self.disk.holds(sector, length) {
            return Ok(IO_ERROR);
        }
        let mut buffer = vec![0; PIECE.min(length as usize)];
        let mut done = 0;
        while done < length {
            let piece = &mut buffer[..PIECE.min((length - done) as usize)];
            chain.read(port, HEADER_SIZE + done, piece)?;
            if self.disk.write(sector + done / SECTOR_SIZE as u64, piece).is_err() {
                return Ok(IO_ERROR);
            }
            done += piece.len() as u64;
        }
        Ok(OK)
    }

    fn identify(
        &self,
        chain: &Chain,
        port: &mut Attachment,
        length: u64,
    ) -> Result<(u8, u64), Broken> {
        let mut id = [0; ID_SIZE];
        let kept = self.serial.len().min(ID_SIZE);
        id[..kept].copy_from_slice(&self.serial.as_bytes()[..kept]);
        let length = (length as usize).min(ID_SIZE);
        chain.write(port, 0, &id[..length])?;
        Ok((OK, length as u64))
    }
}

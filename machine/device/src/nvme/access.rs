//! Commands of I/O queues. [NVME "NVM Command Set"]

use super::Controller;
use super::limit::{MAXIMUM_TRANSFER, NAMESPACE};
use super::prp::Buffer;
use crate::pci::Attachment;
use crate::storage::SECTOR_SIZE;
use arch::nvme::ALL_NAMESPACES;
use arch::nvme::command::{Submission, io};
use arch::nvme::status::Status;

/// A block is a sector of the disk.
const BLOCK: u64 = SECTOR_SIZE as u64;
/// Bytes that are zeroed at a time.
const PIECE: u64 = 64 << 10;
/// Bytes of a range of Dataset Management: attributes, blocks, the first block.
const RANGE_SIZE: usize = 16;

/// Bytes of data of a command that has blocks.
pub(super) fn length(command: &Submission) -> u64 {
    command.blocks() * BLOCK
}

impl Controller {
    pub(super) fn access(
        &mut self,
        port: &mut Attachment,
        command: &Submission,
    ) -> Result<(), Status> {
        let is_flush = command.opcode == io::FLUSH;
        let is_known = matches!(
            command.opcode,
            io::FLUSH | io::WRITE | io::READ | io::WRITE_ZEROES | io::DATASET_MANAGEMENT
        );
        if !is_known {
            return Err(Status::INVALID_OPCODE);
        }
        let namespace = command.namespace;
        if namespace != NAMESPACE && !(is_flush && namespace == ALL_NAMESPACES) {
            return Err(Status::INVALID_NAMESPACE);
        }
        match command.opcode {
            io::FLUSH => self.disk.flush().map_err(|_| Status::WRITE_FAULT),
            io::READ => self.read_blocks(port, command),
            io::WRITE => self.write_blocks(port, command),
            io::WRITE_ZEROES => self.zero_blocks(command),
            _ => self.manage(port, command),
        }
    }

    fn read_blocks(&mut self, port: &mut Attachment, command: &Submission) -> Result<(), Status> {
        let length = self.transfer(command)?;
        let buffer = Buffer::of(port, command, length)?;
        let mut bytes = vec![0; length as usize];
        let read = self.disk.read(command.first_block(), &mut bytes);
        read.map_err(|_| Status::READ_ERROR)?;
        self.log.count_read(length);
        buffer.fill(port, &bytes)
    }

    fn write_blocks(&mut self, port: &mut Attachment, command: &Submission) -> Result<(), Status> {
        let length = self.transfer(command)?;
        self.ensure_writable()?;
        let mut bytes = vec![0; length as usize];
        Buffer::of(port, command, length)?.take(port, &mut bytes)?;
        let written = self.disk.write(command.first_block(), &bytes);
        written.map_err(|_| Status::WRITE_FAULT)?;
        self.log.count_write(length);
        self.keep(command)
    }

    fn zero_blocks(&mut self, command: &Submission) -> Result<(), Status> {
        let length = length(command);
        self.ensure_holds(command.first_block(), length)?;
        self.ensure_writable()?;
        let zeroes = vec![0; PIECE.min(length) as usize];
        let mut done = 0;
        while done < length {
            let piece = &zeroes[..PIECE.min(length - done) as usize];
            let written = self.disk.write(command.first_block() + done / BLOCK, piece);
            written.map_err(|_| Status::WRITE_FAULT)?;
            done += piece.len() as u64;
        }
        self.keep(command)
    }

    /// Ranges are looked at, and what may be forgotten is kept. [NVME "Dataset Management command"]
    fn manage(&mut self, port: &mut Attachment, command: &Submission) -> Result<(), Status> {
        let count = usize::from(command.dword(10) as u8) + 1;
        let mut bytes = vec![0; count * RANGE_SIZE];
        Buffer::of(port, command, bytes.len() as u64)?.take(port, &mut bytes)?;
        self.ensure_writable()?;
        for range in bytes.as_chunks::<RANGE_SIZE>().0 {
            let range = u128::from_le_bytes(*range);
            let blocks = u64::from((range >> 32) as u32);
            self.ensure_holds((range >> 64) as u64, blocks * BLOCK)?;
        }
        Ok(())
    }

    /// Bytes to move; no more than the controller says that it moves. [NVME "Identify Controller
    /// Data Structure"]
    fn transfer(&self, command: &Submission) -> Result<u64, Status> {
        let length = length(command);
        if length > MAXIMUM_TRANSFER {
            return Err(Status::INVALID_FIELD);
        }
        self.ensure_holds(command.first_block(), length)?;
        Ok(length)
    }

    fn ensure_holds(&self, first: u64, length: u64) -> Result<(), Status> {
        let holds = self.disk.holds(first, length);
        if holds { Ok(()) } else { Err(Status::BLOCK_OUT_OF_RANGE) }
    }

    fn ensure_writable(&self) -> Result<(), Status> {
        if self.disk.is_read_only() { Err(Status::WRITE_PROTECTED) } else { Ok(()) }
    }

    /// What was written is on the medium where the command or the cache's absence demands it.
    fn keep(&mut self, command: &Submission) -> Result<(), Status> {
        if command.forces_unit_access() || !self.features.has_write_cache {
            self.disk.flush().map_err(|_| Status::WRITE_FAULT)?;
        }
        Ok(())
    }
}

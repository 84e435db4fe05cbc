//! Data in memory, by entries of physical region pages. [NVME "Physical Region Page Entry and
//! List"]

use crate::pci::Attachment;
use arch::nvme::PAGE_SIZE;
use arch::nvme::command::Submission;
use arch::nvme::status::Status;

const ENTRY_SIZE: u64 = 8;

/// A stretch of memory within a page.
struct Piece {
    address: u64,
    length: usize,
}

/// Where the bytes of a command's data are.
pub(super) struct Buffer(Vec<Piece>);

impl Buffer {
    /// The pages of `length` bytes, which is no more than the controller's longest transfer.
    pub fn of(port: &mut Attachment, command: &Submission, length: u64) -> Result<Self, Status> {
        if !command.prp1.is_multiple_of(4) {
            return Err(Status::PRP_OFFSET_INVALID);
        }
        let first = (PAGE_SIZE - command.prp1 % PAGE_SIZE).min(length);
        let mut buffer = Self(vec![Piece { address: command.prp1, length: first as usize }]);
        let rest = length - first;
        if rest > PAGE_SIZE {
            buffer.list(port, command.prp2, rest)?;
        } else if rest > 0 {
            buffer.page(command.prp2, rest)?;
        }
        Ok(buffer)
    }

    /// A page but the first begins where a page does; gives what is left behind it.
    fn page(&mut self, address: u64, rest: u64) -> Result<u64, Status> {
        if !address.is_multiple_of(PAGE_SIZE) {
            return Err(Status::PRP_OFFSET_INVALID);
        }
        let length = rest.min(PAGE_SIZE);
        self.0.push(Piece { address, length: length as usize });
        Ok(rest - length)
    }

    /// A list may begin within a page. Where it has more than the page holds, the page's last entry
    /// is the next part of the list.
    fn list(&mut self, port: &mut Attachment, list: u64, rest: u64) -> Result<(), Status> {
        if !list.is_multiple_of(ENTRY_SIZE) {
            return Err(Status::PRP_OFFSET_INVALID);
        }
        let (mut list, mut rest) = (list, rest);
        // Bounded: each part but the first begins a page, and holds pages of the data.
        while rest > 0 {
            let held = (PAGE_SIZE - list % PAGE_SIZE) / ENTRY_SIZE;
            let needed = rest.div_ceil(PAGE_SIZE);
            let mut bytes = vec![0; (held.min(needed) * ENTRY_SIZE) as usize];
            port.read(list, &mut bytes).map_err(|_| Status::DATA_TRANSFER_ERROR)?;
            let entries = bytes.as_chunks().0.iter().map(|entry| u64::from_le_bytes(*entry));
            for (index, entry) in (1..).zip(entries) {
                if index == held && needed > held {
                    if !entry.is_multiple_of(PAGE_SIZE) {
                        return Err(Status::PRP_OFFSET_INVALID);
                    }
                    list = entry;
                } else {
                    rest = self.page(entry, rest)?;
                }
            }
        }
        Ok(())
    }

    /// Writes data to memory.
    pub fn fill(&self, port: &mut Attachment, from: &[u8]) -> Result<(), Status> {
        let mut from = from;
        for piece in &self.0 {
            let (part, rest) = from.split_at(piece.length.min(from.len()));
            port.write(piece.address, part).map_err(|_| Status::DATA_TRANSFER_ERROR)?;
            from = rest;
        }
        Ok(())
    }

    /// Reads data from memory.
    pub fn take(&self, port: &mut Attachment, into: &mut [u8]) -> Result<(), Status> {
        let mut into = into;
        for piece in &self.0 {
            let (part, rest) = into.split_at_mut(piece.length.min(into.len()));
            port.read(piece.address, part).map_err(|_| Status::DATA_TRANSFER_ERROR)?;
            into = rest;
        }
        Ok(())
    }
}

//! The 9P transport: requests of a guest's file system to a [`FileServer`], and its answers.
//! [VIRTIO "9P transport"]
//!
//! As with a disk, an answer is there before the guest's next instruction.

use super::queue::{Broken, Queue};
use super::round::{Budget, Progress, Served, serve_each};
use crate::lanes;
use crate::pci::Attachment;
use bitflags::bitflags;
use serde::{Deserialize, Serialize};

bitflags! {
    struct Feature: u64 {
        const MOUNT_TAG = 1;
    }
}

/// Bytes of a tag at most.
pub const LONGEST_TAG: usize = 255;
/// Bytes of a request or an answer at most, headers included.
const LONGEST_MESSAGE: u64 = 1 << 20;
/// The configuration is the tag behind its length.
const TAG_AT: usize = 2;

/// Who has the files. The board provides it, as it does what disks keep their sectors in.
pub trait FileServer: core::fmt::Debug + Send + Sync {
    /// The answer to a message, of at most `room` bytes; empty if there is none to be given.
    fn answer(&mut self, message: &[u8], room: usize) -> Vec<u8>;
    /// Whether the guest has anything open, its root folder included.
    fn is_in_use(&self) -> bool;
    /// Ends what the guest has open.
    fn reset(&mut self);
    /// The same files, and what is open, for a copy of the machine.
    fn duplicate(&self) -> Box<dyn FileServer>;
}

/// A device with one queue. Its server is not part of a snapshot, nor is what the guest has open
/// there: a board can be saved as long as that is nothing.
#[derive(Debug, Serialize, Deserialize)]
pub struct NineP {
    tag: String,
    #[serde(skip)]
    server: Option<Box<dyn FileServer>>,
}

impl Clone for NineP {
    fn clone(&self) -> Self {
        let server = self.server.as_ref().map(|server| server.duplicate());
        Self { tag: self.tag.clone(), server }
    }
}

impl NineP {
    /// A device that guests mount by `tag`, which is cut where it is too long.
    pub fn new(tag: &str, server: Box<dyn FileServer>) -> Self {
        let tag = tag.chars().scan(0, |length, letter| {
            *length += letter.len_utf8();
            (*length <= LONGEST_TAG).then_some(letter)
        });
        Self { tag: tag.collect(), server: Some(server) }
    }

    /// What guests mount it by.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Gives a restored device the server of one like it.
    pub(crate) fn attach(&mut self, other: &Self) {
        self.server = other.clone().server;
    }

    pub(super) fn is_in_use(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.is_in_use())
    }

    pub(super) fn features(&self) -> u64 {
        Feature::MOUNT_TAG.bits()
    }

    pub(super) fn read_configuration(&self, offset: u64, size: u8) -> u32 {
        let mut bytes = [0; TAG_AT + LONGEST_TAG];
        bytes[..TAG_AT].copy_from_slice(&(self.tag.len() as u16).to_le_bytes());
        bytes[TAG_AT..TAG_AT + self.tag.len()].copy_from_slice(self.tag.as_bytes());
        lanes::load(&bytes, offset, size) as u32
    }

    pub(super) fn reset(&mut self) {
        if let Some(server) = &mut self.server {
            server.reset();
        }
    }

    pub(super) fn process(
        &mut self,
        queue: &mut Queue,
        port: &mut Attachment,
        budget: &mut Budget,
    ) -> Result<Progress, Broken> {
        serve_each(queue, port, budget, |chain, port| {
            let length = chain.readable_length();
            if length > LONGEST_MESSAGE {
                return Err(Broken);
            }
            let mut message = vec![0; length as usize];
            chain.read(port, 0, &mut message)?;
            let room = chain.writable_length().min(LONGEST_MESSAGE) as usize;
            let answer = match &mut self.server {
                Some(server) => server.answer(&message, room),
                None => Vec::new(),
            };
            let written = chain.write(port, 0, &answer)?;
            Ok(Served { written: written as u32, moved: length + written as u64 })
        })
    }
}

//! A folder of this computer as a server of the protocol 9P2000.L, as Linux mounts it over virtio.
//! [9P "9P2000.L"]
//!
//! A file is known by its place below the folder and looked up for each message, with openat2,
//! beneath the folder and without following any link: what guest or host rename meanwhile leads to
//! another file inside or to an error. Links are read by the guest, which resolves them itself.
//! Devices, pipes and sockets are shown and never opened.
//!
//! Every answer is there when the call returns. What a guest sees of a folder that nobody changes
//! is the same each time: where nothing is written, times of access and free space are not shown.
//!
//! DEVIATION(9P "xattr"): no extended attributes; locks are the guest's own and always granted.

#![warn(missing_docs)]

mod attribute;
mod change;
mod directory;
mod fid;
mod message;
mod place;
mod session;

use fid::Fids;
use message::Reader;
use place::{Folder, Place};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Bytes of the longest message in either direction: what Linux sends at most, and headers.
pub const LONGEST_MESSAGE: usize = (512 << 10) + HEADER_SIZE;
/// Shorter messages could not carry an answer with a name.
const SHORTEST_MESSAGE: u32 = 4096;
/// Length, kind and tag.
const HEADER_SIZE: usize = 7;

/// What a guest may do in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everything that would change something is refused.
    ReadOnly,
    /// What the user of this process may do.
    Writable,
}

/// A folder and what a guest has open in it. A copy has the same files open, and goes its own way.
#[derive(Clone, Debug)]
pub struct Share {
    folder: Arc<Folder>,
    access: Access,
    /// What was agreed on.
    message_size: u32,
    fids: Fids,
}

impl Share {
    /// Shares a folder. Links in its own path are followed, once, here.
    pub fn open(folder: &Path, access: Access) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = Folder::new(openat(CWD, folder, flags, Mode::empty())?)?;
        // A kernel without openat2 says so here and not to the guest.
        folder.open(&Place::default(), OFlags::PATH)?;
        Ok(Self {
            folder: Arc::new(folder),
            access,
            message_size: LONGEST_MESSAGE as u32,
            fids: Fids::default(),
        })
    }

    /// Whether guests may change something.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Whether a guest has the folder mounted, or anything in it open.
    pub fn is_in_use(&self) -> bool {
        !self.fids.is_empty()
    }

    /// Forgets what a guest has open.
    pub fn reset(&mut self) {
        self.fids = Fids::default();
        self.message_size = LONGEST_MESSAGE as u32;
    }

    /// The answer to a message, of at most `room` bytes. Nothing if the message has no header, or
    /// the room is none for an error.
    pub fn answer(&mut self, message: &[u8], room: usize) -> Vec<u8> {
        let Some(header) = message::Header::of(message) else { return Vec::new() };
        let most = room.min(self.message_size as usize);
        let mut answer = vec![0; HEADER_SIZE];
        let body = message.get(HEADER_SIZE..header.length);
        let served = match body.filter(|_| header.length <= self.message_size as usize) {
            Some(body) => self.serve(header.kind, &mut Reader(body), &mut answer, most),
            None => Err(Errno::PROTO),
        };
        let fits = if answer.len() > most { Err(Errno::MSGSIZE) } else { Ok(()) };
        let kind = match served.and(fits) {
            Ok(()) => header.kind.wrapping_add(1),
            Err(error) => {
                answer.truncate(HEADER_SIZE);
                answer.extend((error.raw_os_error() as u32).to_le_bytes());
                message::kind::ERROR + 1
            }
        };
        if answer.len() > room {
            return Vec::new();
        }
        message::Header { length: answer.len(), kind, tag: header.tag }.put(&mut answer);
        answer
    }
}

#[cfg(test)]
mod tests;

//! A guest's session: what message is served by what, agreement on the version, ways through the
//! folder, opening and reading.

use crate::fid::Fids;
use crate::message::{Reader, Writer, kind};
use crate::place::{Name, Place};
use crate::{Access, HEADER_SIZE, LONGEST_MESSAGE, SHORTEST_MESSAGE, Share};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, OFlags, Stat, fstat, fstatfs, fsync, readlinkat};
use rustix::io::{Errno, pread};

const VERSION: &[u8] = b"9P2000.L";
/// Names in one walk at most.
const MOST_NAMES: u16 = 16;
/// What an attach is without authentication.
const NO_FID: u32 = u32::MAX;
/// `f_type` of /proc: what is in it reaches processes, this one among them.
const PROC_MAGIC: i64 = 0x9FA0;

const LOCK_GRANTED: u8 = 0;
const LOCK_TYPE_NONE: u8 = 2;

impl Share {
    pub(crate) fn serve(
        &mut self,
        kind: u8,
        body: &mut Reader<'_>,
        answer: &mut Vec<u8>,
        most: usize,
    ) -> Result<(), Errno> {
        match kind {
            kind::VERSION => self.agree(body, answer),
            kind::ATTACH => self.attach(body, answer),
            kind::WALK => self.walk(body, answer),
            kind::LOPEN => self.open_fid(body, answer),
            kind::READ => self.read(body, answer, most),
            kind::READDIR => self.read_folder(body, answer, most),
            kind::READLINK => self.read_link(body, answer),
            kind::GETATTR => self.get_attributes(body, answer),
            kind::STATFS => self.get_size(body, answer),
            kind::CLUNK => self.fids.remove(body.u32()?).map(drop),
            // Every answer is given before the next message is read.
            kind::FLUSH => Ok(()),
            kind::LOCK => {
                self.fids.file(body.u32()?)?;
                answer.push(LOCK_GRANTED);
                Ok(())
            }
            kind::GETLOCK => self.get_lock(body, answer),
            kind::FSYNC => match self.access {
                Access::ReadOnly => self.fids.file(body.u32()?).map(drop),
                Access::Writable => fsync(self.fids.file(body.u32()?)?),
            },
            kind::REMOVE => self.remove(body),
            kind::WRITE
            | kind::LCREATE
            | kind::SYMLINK
            | kind::RENAME
            | kind::SETATTR
            | kind::LINK
            | kind::MKDIR
            | kind::RENAMEAT
            | kind::UNLINKAT => self.change(kind, body, answer),
            // Among them authentication, device nodes and extended attributes.
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    /// A session begins here, and with it nothing is open.
    fn agree(&mut self, body: &mut Reader<'_>, answer: &mut Vec<u8>) -> Result<(), Errno> {
        let (size, version) = (body.u32()?, body.text()?);
        if size < SHORTEST_MESSAGE {
            return Err(Errno::INVAL);
        }
        self.fids = Fids::default();
        self.message_size = size.min(LONGEST_MESSAGE as u32);
        answer.put_u32(self.message_size);
        answer.put_text(if version == VERSION { VERSION } else { b"unknown" });
        Ok(())
    }

    fn attach(&mut self, body: &mut Reader<'_>, answer: &mut Vec<u8>) -> Result<(), Errno> {
        let (number, authentication) = (body.u32()?, body.u32()?);
        if authentication != NO_FID {
            return Err(Errno::OPNOTSUPP);
        }
        let root = Place::default();
        let stat = self.folder.look(&root)?;
        self.fids.put(number, root, false)?;
        self.put_qid(answer, &stat);
        Ok(())
    }

    /// Goes down names, as far as they lead. [9P "walk"]
    fn walk(&mut self, body: &mut Reader<'_>, answer: &mut Vec<u8>) -> Result<(), Errno> {
        let (number, new, count) = (body.u32()?, body.u32()?, body.u16()?);
        if count > MOST_NAMES {
            return Err(Errno::INVAL);
        }
        let fid = self.fids.get(number)?;
        if fid.file.is_some() && count > 0 {
            return Err(Errno::INVAL);
        }
        let mut place = fid.place.clone();
        let count_at = answer.len();
        answer.extend([0; 2]);
        let mut gone = 0u16;
        for _ in 0..count {
            let name = body.text()?;
            match self.step(&place, name) {
                Ok((next, stat)) => {
                    place = next;
                    self.put_qid(answer, &stat);
                    gone += 1;
                }
                Err(error) if gone == 0 => return Err(error),
                Err(_) => break,
            }
        }
        answer[count_at..count_at + 2].copy_from_slice(&gone.to_le_bytes());
        if gone < count { Ok(()) } else { self.fids.put(new, place, number == new) }
    }

    fn step(&self, from: &Place, name: &[u8]) -> Result<(Place, Stat), Errno> {
        let place = match name {
            // The way up ends at the folder.
            b".." => from.parent(),
            _ => from.child(Name::of(name).map_err(|_| Errno::NOENT)?)?,
        };
        let stat = self.folder.look(&place)?;
        Ok((place, stat))
    }

    fn open_fid(&mut self, body: &mut Reader<'_>, answer: &mut Vec<u8>) -> Result<(), Errno> {
        let (number, flags) = (body.u32()?, body.u32()?);
        let fid = self.fids.get(number)?;
        if fid.file.is_some() {
            return Err(Errno::BADF);
        }
        let place = fid.place.clone();
        let flags = self.allowed(flags)?;
        openable(&self.folder.look(&place)?)?;
        let file = self.folder.open(&place, flags)?;
        let stat = self.opened(&file)?;
        self.put_qid(answer, &stat);
        // As long as messages are.
        answer.put_u32(0);
        self.fids.open(number, place, file)
    }

    /// A guest's flags as this computer's, as far as they matter here and are granted.
    pub(crate) fn allowed(&self, flags: u32) -> Result<OFlags, Errno> {
        let asked = OFlags::from_bits_retain(flags);
        let access = asked & OFlags::ACCMODE;
        let is_change = access != OFlags::RDONLY || asked.contains(OFlags::TRUNC);
        if is_change && self.access == Access::ReadOnly {
            return Err(Errno::ROFS);
        }
        let kept = OFlags::ACCMODE
            | OFlags::TRUNC
            | OFlags::APPEND
            | OFlags::EXCL
            | OFlags::DIRECTORY
            | OFlags::DSYNC
            | OFlags::SYNC;
        // What became a pipe meanwhile holds nobody up.
        Ok(asked & kept | OFlags::NONBLOCK | OFlags::NOCTTY)
    }

    /// A file that was just opened, if it is one that may be.
    pub(crate) fn opened(&self, file: &OwnedFd) -> Result<Stat, Errno> {
        let stat = fstat(file)?;
        openable(&stat)?;
        if fstatfs(file)?.f_type as i64 == PROC_MAGIC {
            return Err(Errno::ACCESS);
        }
        Ok(stat)
    }

    fn read(&self, body: &mut Reader<'_>, answer: &mut Vec<u8>, most: usize) -> Result<(), Errno> {
        let (number, offset, count) = (body.u32()?, body.u64()?, body.u32()?);
        let file = self.fids.file(number)?;
        let start = HEADER_SIZE + 4;
        let count = (count as usize).min(most.saturating_sub(start));
        answer.resize(start + count, 0);
        let length = pread(file, &mut answer[start..], offset)?;
        answer.truncate(start + length);
        answer[HEADER_SIZE..start].copy_from_slice(&(length as u32).to_le_bytes());
        Ok(())
    }

    fn read_link(&self, body: &mut Reader<'_>, answer: &mut Vec<u8>) -> Result<(), Errno> {
        let fid = self.fids.get(body.u32()?)?;
        let link = self.folder.open(&fid.place, OFlags::PATH)?;
        answer.put_text(readlinkat(link, "", Vec::new())?.as_bytes());
        Ok(())
    }

    /// Nobody else holds a lock, as far as this server knows.
    fn get_lock(&self, body: &mut Reader<'_>, answer: &mut Vec<u8>) -> Result<(), Errno> {
        self.fids.file(body.u32()?)?;
        body.u8()?;
        let (start, length, process) = (body.u64()?, body.u64()?, body.u32()?);
        answer.push(LOCK_TYPE_NONE);
        answer.put_u64(start);
        answer.put_u64(length);
        answer.put_u32(process);
        answer.put_text(body.text()?);
        Ok(())
    }
}

/// Files and folders alone: to open a device or a pipe does something, or waits.
fn openable(stat: &Stat) -> Result<(), Errno> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::Directory => Ok(()),
        FileType::Symlink => Err(Errno::LOOP),
        _ => Err(Errno::ACCESS),
    }
}

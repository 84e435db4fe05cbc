//! What changes the folder: all of it is refused where the share is read-only.

use crate::message::{Reader, Writer, kind};
use crate::place::{Name, Place};
use crate::{Access, Share};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, fchmod,
    fchown, fstat, ftruncate, futimens, linkat, mkdirat, renameat, symlinkat, unlinkat,
};
use rustix::io::{Errno, pwrite};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Bits of a mode that a guest decides. Not those that would let others of this computer become the
/// file's owner.
const MODE: u32 = 0o1777;
/// In a request to remove: a folder.
const REMOVE_FOLDER: u32 = 0x200;

/// What a request sets.
mod set {
    pub const MODE: u32 = 1;
    pub const OWNER: u32 = 1 << 1;
    pub const GROUP: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ACCESSED: u32 = 1 << 4;
    pub const MODIFIED: u32 = 1 << 5;
    /// To the time that the request has, not the present.
    pub const ACCESSED_THEN: u32 = 1 << 7;
    pub const MODIFIED_THEN: u32 = 1 << 8;
}

impl Share {
    pub(crate) fn change(
        &mut self,
        kind: u8,
        body: &mut Reader<'_>,
        answer: &mut Vec<u8>,
    ) -> Result<(), Errno> {
        if self.access == Access::ReadOnly {
            return Err(Errno::ROFS);
        }
        match kind {
            kind::WRITE => self.write(body, answer),
            kind::LCREATE => self.create(body, answer),
            kind::SYMLINK => self.link_to_text(body, answer),
            kind::RENAME => self.rename(body),
            kind::SETATTR => self.set_attributes(body),
            kind::LINK => self.link(body),
            kind::MKDIR => self.make_folder(body, answer),
            kind::RENAMEAT => self.rename_name(body),
            kind::UNLINKAT => self.unlink(body),
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    /// The fid is gone afterwards, whatever comes of it. [9P "remove"]
    pub(crate) fn remove(&mut self, body: &mut Reader<'_>) -> Result<(), Errno> {
        let fid = self.fids.remove(body.u32()?)?;
        if self.access == Access::ReadOnly {
            return Err(Errno::ROFS);
        }
        let folder = self.folder.open_folder(&fid.place.parent())?;
        let is_folder = is_folder(self.folder.look(&fid.place)?.st_mode);
        let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        unlinkat(folder, fid.place.name()?.path(), flags)
    }

    fn write(&self, body: &mut Reader<'_>, answer: &mut Vec<u8>) -> Result<(), Errno> {
        let (number, offset, count) = (body.u32()?, body.u64()?, body.u32()?);
        let bytes = body.bytes(count as usize)?;
        answer.put_u32(pwrite(self.fids.file(number)?, bytes, offset)? as u32);
        Ok(())
    }

    fn create(&mut self, body: &mut Reader<'_>, answer: &mut Vec<u8>) -> Result<(), Errno> {
        let (number, name) = (body.u32()?, Name::of(body.text()?)?);
        let (flags, mode, group) = (body.u32()?, body.u32()?, body.u32()?);
        let (place, folder) = self.folder_of(number)?;
        let file = self.folder.create(&folder, name, self.allowed(flags)?, granted(mode))?;
        self.opened(&file)?;
        give_group(&file, group);
        let stat = fstat(&file)?;
        self.put_qid(answer, &stat);
        answer.put_u32(0);
        self.fids.open(number, place.child(name)?, file)
    }

    fn link_to_text(&self, body: &mut Reader<'_>, answer: &mut Vec<u8>) -> Result<(), Errno> {
        let (number, name) = (body.u32()?, Name::of(body.text()?)?);
        let target = body.text()?;
        let (place, folder) = self.folder_of(number)?;
        symlinkat(OsStr::from_bytes(target), folder, name.path())?;
        self.put_qid_at(answer, &place.child(name)?)
    }

    fn make_folder(&self, body: &mut Reader<'_>, answer: &mut Vec<u8>) -> Result<(), Errno> {
        let (number, name) = (body.u32()?, Name::of(body.text()?)?);
        let mode = body.u32()?;
        let (place, folder) = self.folder_of(number)?;
        mkdirat(folder, name.path(), granted(mode))?;
        self.put_qid_at(answer, &place.child(name)?)
    }

    fn link(&self, body: &mut Reader<'_>) -> Result<(), Errno> {
        let (number, old) = (body.u32()?, body.u32()?);
        let name = Name::of(body.text()?)?;
        let (_, folder) = self.folder_of(number)?;
        let old = &self.fids.get(old)?.place;
        let from = self.folder.open_folder(&old.parent())?;
        linkat(from, old.name()?.path(), folder, name.path(), AtFlags::empty())
    }

    fn rename(&mut self, body: &mut Reader<'_>) -> Result<(), Errno> {
        let (number, to) = (body.u32()?, body.u32()?);
        let name = Name::of(body.text()?)?;
        let from = self.fids.get(number)?.place.clone();
        let (to, _) = self.folder_of(to)?;
        self.move_place(&from, &to.child(name)?)
    }

    fn rename_name(&mut self, body: &mut Reader<'_>) -> Result<(), Errno> {
        let (from, old) = (body.u32()?, Name::of(body.text()?)?);
        let (to, new) = (body.u32()?, Name::of(body.text()?)?);
        let from = self.fids.get(from)?.place.child(old)?;
        let to = self.fids.get(to)?.place.child(new)?;
        self.move_place(&from, &to)
    }

    fn move_place(&mut self, from: &Place, to: &Place) -> Result<(), Errno> {
        let (old, new) = (from.name()?, to.name()?);
        let old_folder = self.folder.open_folder(&from.parent())?;
        let new_folder = self.folder.open_folder(&to.parent())?;
        renameat(old_folder, old.path(), new_folder, new.path())?;
        self.fids.rename(from, to);
        Ok(())
    }

    fn unlink(&self, body: &mut Reader<'_>) -> Result<(), Errno> {
        let (number, name) = (body.u32()?, Name::of(body.text()?)?);
        let is_folder = body.u32()? & REMOVE_FOLDER != 0;
        let (_, folder) = self.folder_of(number)?;
        let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        unlinkat(folder, name.path(), flags)
    }

    fn set_attributes(&self, body: &mut Reader<'_>) -> Result<(), Errno> {
        let (number, valid) = (body.u32()?, body.u32()?);
        let (mode, owner, group) = (body.u32()?, body.u32()?, body.u32()?);
        let size = body.u64()?;
        let accessed = moment(body, valid, set::ACCESSED, set::ACCESSED_THEN)?;
        let modified = moment(body, valid, set::MODIFIED, set::MODIFIED_THEN)?;
        let stat = self.look(number)?;
        if valid & set::SIZE != 0 {
            let flags = OFlags::WRONLY | OFlags::NONBLOCK;
            let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            self.on_file(number, is_file, flags, |file| ftruncate(file, size))?;
        }
        let is_there = is_folder(stat.st_mode)
            || FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        if valid & (set::OWNER | set::GROUP) != 0 {
            let owner = (valid & set::OWNER != 0).then_some(owner).filter(|id| *id != u32::MAX);
            let group = (valid & set::GROUP != 0).then_some(group).filter(|id| *id != u32::MAX);
            self.on_file(number, is_there, flags, |file| {
                // Who may not give files away keeps them.
                match fchown(file, owner.map(Uid::from_raw), group.map(Gid::from_raw)) {
                    Err(Errno::PERM) | Ok(()) => Ok(()),
                    Err(error) => Err(error),
                }
            })?;
        }
        if valid & set::MODE != 0 {
            self.on_file(number, is_there, flags, |file| fchmod(file, granted(mode)))?;
        }
        if valid & (set::ACCESSED | set::MODIFIED) != 0 {
            let times = Timestamps { last_access: accessed, last_modification: modified };
            self.on_file(number, is_there, flags, |file| futimens(file, &times))?;
        }
        Ok(())
    }

    /// Acts on what a fid stands for, where that is a file or a folder.
    fn on_file(
        &self,
        number: u32,
        is_there: bool,
        flags: OFlags,
        act: impl Fn(&OwnedFd) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        if !is_there {
            return Err(Errno::OPNOTSUPP);
        }
        let fid = self.fids.get(number)?;
        // What is open may have lost its name, and another file have it.
        if let Some(file) = &fid.file {
            match act(file) {
                // It was opened for something else.
                Err(Errno::INVAL | Errno::BADF) => {}
                done => return done,
            }
        }
        let file = self.folder.open(&fid.place, flags)?;
        self.opened(&file)?;
        act(&file)
    }

    /// The folder that a fid stands for.
    fn folder_of(&self, number: u32) -> Result<(Place, OwnedFd), Errno> {
        let place = &self.fids.get(number)?.place;
        Ok((place.clone(), self.folder.open_folder(place)?))
    }

    fn put_qid_at(&self, answer: &mut Vec<u8>, place: &Place) -> Result<(), Errno> {
        let stat = self.folder.look(place)?;
        self.put_qid(answer, &stat);
        Ok(())
    }
}

fn is_folder(mode: u32) -> bool {
    FileType::from_raw_mode(mode) == FileType::Directory
}

fn granted(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & MODE)
}

/// New files are of a guest's group where this process may say so.
fn give_group(file: impl AsFd, group: u32) {
    let group = (group != u32::MAX).then(|| Gid::from_raw(group));
    let _ = fchown(file, None, group);
}

/// A time of a request: not to be set, the present, or what it says.
fn moment(body: &mut Reader<'_>, valid: u32, is_set: u32, is_then: u32) -> Result<Timespec, Errno> {
    let (seconds, nanoseconds) = (body.u64()?, body.u64()?);
    Ok(match (valid & is_set != 0, valid & is_then != 0) {
        (false, _) => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        (true, false) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        (true, true) if nanoseconds < 1_000_000_000 => {
            Timespec { tv_sec: seconds as i64, tv_nsec: nanoseconds as i64 }
        }
        (true, true) => return Err(Errno::INVAL),
    })
}

//! A new file, written out of sight and put in its place in one step.
//!
//! It has no name, or one that nobody can guess, and nobody else may read it, until it has the
//! mode, owner and extended attributes of the file whose place it takes.

use crate::attributes::{self, Attributes};
use crate::error::Error;
use crate::place::{Place, name_of_kind, names, sync};
use crate::saved::Saved;
use rustix::fs::{AtFlags, FileType, FlockOperation, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;

/// Which mode and owner a new file gets.
#[derive(Clone, Copy, Debug)]
pub enum Like<'s> {
    /// Those of the file that it replaces; where there is none, this mode, whatever the umask.
    Present(u32),
    /// Those of the file that it replaces if that is this user's; otherwise what the umask leaves
    /// of 0666.
    Umask,
    /// This mode, whatever is there.
    Mode(u32),
    /// A file as it was read before.
    Saved(&'s Saved),
}

/// What was not as usual when a file was replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Further names of the file (hard links), which keep the old content.
    pub other_names: u64,
    /// Extended attributes that the system did not let us set on the new file.
    pub lost_attributes: Vec<String>,
}

impl Told {
    /// In words.
    pub fn sentences(&self, path: &str) -> Vec<String> {
        let names = match self.other_names {
            0 => None,
            1 => Some("another name (hard link), which keeps".to_owned()),
            count => Some(format!("{count} other names (hard links), which keep")),
        };
        let names = names.map(|names| format!("{path} has {names} the old content"));
        let lost = self.lost_attributes.iter().map(|name| format!("{path} has lost {name}"));
        names.into_iter().chain(lost).collect()
    }
}

/// A file that is being written. Dropped before it is put in its place, it was never there.
#[derive(Debug)]
pub struct Draft {
    place: Place,
    file: File,
    /// Its name in the folder of the place, once it has one.
    name: Option<OsString>,
}

const OURS: Mode = Mode::RUSR.union(Mode::WUSR);
const NAMES: usize = 16;

impl Draft {
    /// A new file for this place, readable by this user alone.
    pub fn new(place: Place) -> Result<Draft, Error> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::openat(&place.folder, ".", flags | OFlags::TMPFILE, OURS) {
            Ok(file) => return Ok(Draft { place, file: file.into(), name: None }),
            // File systems without it; kernels without it answer as for a folder.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {}
            Err(error) => return Err(place.failed(error)),
        }
        Draft::named(place)
    }

    /// The same with a name from the start.
    pub(crate) fn named(place: Place) -> Result<Draft, Error> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        for _ in 0..NAMES {
            let name = random_name().map_err(|error| place.failed(error))?;
            match rustix::fs::openat(&place.folder, &name, flags | OFlags::CLOEXEC, OURS) {
                Ok(file) => {
                    lock(&file);
                    return Ok(Draft { place, file: file.into(), name: Some(name) });
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(place.failed(error)),
            }
        }
        Err(place.failed(Errno::EXIST))
    }

    /// Refuses early what would be refused when the file is put in its place.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let kind = self.place.status()?.map(|status| FileType::from_raw_mode(status.st_mode));
        match kind {
            None | Some(FileType::RegularFile) => Ok(()),
            Some(kind) => {
                let kind = name_of_kind(kind);
                Err(Error::Special { path: self.place.shown.clone(), kind })
            }
        }
    }

    /// Puts the file in its place; what was there is gone, unless it is not an ordinary file.
    pub fn put(mut self, like: Like) -> Result<Told, Error> {
        self.put_in_place(like, None)
    }

    /// The same, but only if what is there is still this file.
    pub(crate) fn put_over(mut self, like: Like, expected: Option<Stat>) -> Result<Told, Error> {
        self.put_in_place(like, Some(expected))
    }

    /// Puts the file in its place now, and goes on to write: for what grows as long as a program
    /// runs and is of use when the program is killed.
    pub fn put_first(mut self, like: Like) -> Result<File, Error> {
        self.put_in_place(like, None)?;
        self.file.try_clone().map_err(|source| self.failed(source))
    }

    fn put_in_place(&mut self, like: Like, expected: Option<Option<Stat>>) -> Result<Told, Error> {
        let current = self.place.status()?;
        let shown = self.place.shown.clone();
        let changed = || Error::Swapped { path: shown.clone() };
        if expected.is_some_and(|expected| !is_same(expected, current)) {
            return Err(changed());
        }
        self.check()?;
        let lost_attributes = self.dress(like, current.as_ref())?;
        self.file.sync_all().map_err(|source| self.failed(source))?;
        let name = self.linked()?;
        if !is_same(current, self.place.status()?) {
            return Err(changed());
        }
        let Place { folder, name: target, .. } = &self.place;
        rustix::fs::renameat(folder, &name, folder, target)
            .map_err(|error| self.place.failed(error))?;
        self.name = None;
        sync(folder).map_err(|error| self.place.failed(error))?;
        let own = rustix::fs::fstat(&self.file).map_err(|error| self.place.failed(error))?;
        let there = self.place.status()?;
        if there.is_none_or(|there| (there.st_dev, there.st_ino) != (own.st_dev, own.st_ino)) {
            return Err(changed());
        }
        let other_names = current.map_or(0, |status| status.st_nlink - 1);
        Ok(Told { other_names, lost_attributes })
    }

    /// Owner, attributes and mode, in this order: nobody may read it before it is theirs.
    fn dress(&self, like: Like, current: Option<&Stat>) -> Result<Vec<String>, Error> {
        let failed = |error| self.place.failed(error);
        let present = |mode| match current {
            Some(status) => (Some((status.st_uid, status.st_gid)), status.st_mode & 0o777),
            None => (None, mode),
        };
        let (owner, mode) = match like {
            Like::Present(mode) => present(mode),
            Like::Umask if is_replaced_by_owner(current) => present(0o600),
            Like::Umask => (None, 0o666 & !umask()),
            Like::Mode(mode) => (None, mode),
            Like::Saved(saved) => (Some((saved.user, saved.group)), saved.mode & 0o777),
        };
        let own = rustix::fs::fstat(&self.file).map_err(failed)?;
        if let Some((user, group)) = owner
            && (user, group) != (own.st_uid, own.st_gid)
        {
            let user = (user != own.st_uid).then(|| Uid::from_raw(user));
            let group = (group != own.st_gid).then(|| Gid::from_raw(group));
            rustix::fs::fchown(&self.file, user, group).map_err(failed)?;
        }
        let wanted = match (like, current) {
            (Like::Mode(_), _) => Attributes::new(),
            (Like::Umask, current) if !is_replaced_by_owner(current) => Attributes::new(),
            (Like::Saved(saved), None) => saved.attributes.clone(),
            (_, None) => Attributes::new(),
            (_, Some(_)) => match self.place.open()? {
                Some(file) => attributes::of(&file).map_err(failed)?,
                None => Attributes::new(),
            },
        };
        let lost = attributes::put(&self.file, &wanted).map_err(failed)?;
        let own = rustix::fs::fstat(&self.file).map_err(failed)?;
        if own.st_mode & 0o7777 != mode {
            rustix::fs::fchmod(&self.file, Mode::from_raw_mode(mode)).map_err(failed)?;
        }
        Ok(lost)
    }

    /// The name of the file beside its place, made now if it has none.
    fn linked(&mut self) -> Result<OsString, Error> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        lock(&self.file);
        for _ in 0..NAMES {
            let name = random_name().map_err(|error| self.place.failed(error))?;
            let folder = &self.place.folder;
            let flags = AtFlags::SYMLINK_FOLLOW;
            match rustix::fs::linkat(rustix::fs::CWD, &own, folder, &name, flags) {
                Ok(()) => {
                    self.name = Some(name.clone());
                    return Ok(name);
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(self.place.failed(error)),
            }
        }
        Err(self.place.failed(Errno::EXIST))
    }

    pub(crate) fn failed(&self, source: io::Error) -> Error {
        Error::File { path: self.place.shown.clone(), source }
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Draft {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = rustix::fs::unlinkat(&self.place.folder, name, AtFlags::empty());
        }
    }
}

/// A result that replaces another user's file does not become theirs.
fn is_replaced_by_owner(current: Option<&Stat>) -> bool {
    current.is_some_and(|status| status.st_uid == rustix::process::geteuid().as_raw())
}

/// Whether two looks saw the same file in the same state.
fn is_same(one: Option<Stat>, other: Option<Stat>) -> bool {
    let key = |status: Stat| {
        let changed = (status.st_mtime, status.st_mtime_nsec, status.st_size);
        (status.st_dev, status.st_ino, changed)
    };
    one.map(key) == other.map(key)
}

/// The umask without changing it, which another thread would see.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o077)
}

/// Says that this file is still written: see [`sweep`].
fn lock(file: &impl std::os::fd::AsFd) {
    let _ = rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
}

/// Removes from a folder what runs that were killed have left there.
pub(crate) fn sweep(place: &Place) {
    for name in names(&place.folder, &place.shown).unwrap_or_default() {
        let digits = name.strip_prefix(PREFIX).unwrap_or_default();
        if digits.len() == 2 * RANDOM_BYTES && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let _ = remove_if_left(place, &name);
        }
    }
}

fn remove_if_left(place: &Place, name: &str) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let status = rustix::fs::statat(&place.folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let is_file = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
    if is_file && status.st_uid == rustix::process::geteuid().as_raw() {
        let file = rustix::fs::openat(&place.folder, name, flags, Mode::empty())?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        rustix::fs::unlinkat(&place.folder, name, AtFlags::empty())?;
    }
    Ok(())
}

const PREFIX: &str = ".avicenna-";
const RANDOM_BYTES: usize = 12;

fn random_name() -> Result<OsString, Errno> {
    let mut bytes = [0; RANDOM_BYTES];
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        match rustix::rand::getrandom(&mut bytes[filled..], flags) {
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{PREFIX}{digits}").into())
}

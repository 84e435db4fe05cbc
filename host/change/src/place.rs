//! A file's place: its folder, opened once, and a name in it.
//!
//! Everything that is read, written or removed is reached through the descriptor of the folder, so
//! that a path that is swapped meanwhile does not matter. Below a root folder no symbolic link
//! leads out of it; the last part of a path is never followed when it is opened.

use crate::error::Error;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, mkdirat, openat, openat2, statat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// A folder in which, and in no other, files are reached by their paths.
#[derive(Debug)]
pub struct Root {
    folder: OwnedFd,
    /// Absolute, without links.
    path: PathBuf,
}

/// A name in a folder that stays the same folder, wherever its path leads later.
#[derive(Debug)]
pub struct Place {
    pub(crate) folder: OwnedFd,
    pub(crate) name: OsString,
    pub(crate) shown: PathBuf,
}

impl Root {
    /// The folder at this path; links on the way to it are followed.
    pub fn open(path: &Path) -> Result<Root, Error> {
        let failed = |source| Error::File { path: path.into(), source };
        let real = path.canonicalize().map_err(failed)?;
        let folder = openat(rustix::fs::CWD, &real, FOLDER | OFlags::RDONLY, Mode::empty())
            .map_err(|error| failed(error.into()))?;
        Ok(Root { folder, path: real })
    }

    /// Where the folder was when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The place of a path below the root; `None` if its folder does not exist.
    pub fn place(&self, path: &str) -> Result<Option<Place>, Error> {
        let (above, name) = self.parts(path)?;
        let shown = self.path.join(&above).join(&name);
        match self.folder(&above, path)? {
            Some(folder) => self.behind_link(Place { folder, name, shown }, path).map(Some),
            None => Ok(None),
        }
    }

    /// The same; folders that do not exist are made, with this mode.
    pub fn place_made(&self, path: &str, mode: u32) -> Result<Place, Error> {
        if let Some(place) = self.place(path)? {
            return Ok(place);
        }
        let (above, name) = self.parts(path)?;
        let shown = self.path.join(&above).join(&name);
        let folder = self.made(&above, mode, path)?;
        self.behind_link(Place { folder, name, shown }, path)
    }

    /// A folder below the root, to be listed or locked; `None` if it does not exist.
    pub fn open_folder(&self, path: &str) -> Result<Option<OwnedFd>, Error> {
        let (above, name) = self.parts(path)?;
        self.folder(&above.join(name), path)
    }

    /// The names in a folder below the root; none if it does not exist.
    pub(crate) fn names(&self, path: &str) -> Result<Vec<String>, Error> {
        self.open_folder(path)?.map_or(Ok(vec![]), |folder| names(&folder, &self.path.join(path)))
    }

    fn parts(&self, path: &str) -> Result<(PathBuf, OsString), Error> {
        let outside = || Error::Outside { path: path.into() };
        let relative = Path::new(path.trim_start_matches('/'));
        if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(outside());
        }
        let name = relative.file_name().ok_or_else(outside)?.to_owned();
        Ok((relative.parent().unwrap_or(Path::new("")).to_owned(), name))
    }

    /// Links are followed as they are for a program whose root this is.
    fn folder(&self, relative: &Path, path: &str) -> Result<Option<OwnedFd>, Error> {
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        let flags = FOLDER | OFlags::RDONLY;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        match openat2(&self.folder, relative, flags, Mode::empty(), resolve) {
            Ok(folder) => Ok(Some(folder)),
            // Linux before 5.6, and sandboxes that do not know the call.
            Err(Errno::NOSYS | Errno::PERM) => self.walked(relative, path),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => Err(Error::Outside { path: path.into() }),
            Err(error) => Err(self.failed(relative, error)),
        }
    }

    /// Folder by folder, no link followed.
    fn walked(&self, relative: &Path, path: &str) -> Result<Option<OwnedFd>, Error> {
        let mut folder = self.start()?;
        for part in relative.components() {
            match openat(&folder, part.as_os_str(), FOLDER | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(next) => folder = next,
                Err(Errno::NOENT) => return Ok(None),
                Err(Errno::LOOP | Errno::NOTDIR) => {
                    return Err(Error::Outside { path: path.into() });
                }
                Err(error) => return Err(self.failed(relative, error)),
            }
        }
        Ok(Some(folder))
    }

    fn made(&self, relative: &Path, mode: u32, path: &str) -> Result<OwnedFd, Error> {
        let mut folder = self.start()?;
        let failed = |error| self.failed(relative, error);
        let mut reached = PathBuf::new();
        for part in relative.components() {
            reached.push(part);
            if let Some(next) = self.folder(&reached, path)? {
                folder = next;
                continue;
            }
            match mkdirat(&folder, part.as_os_str(), Mode::from_raw_mode(mode)) {
                Ok(()) => sync(&folder).map_err(failed)?,
                Err(Errno::EXIST) => {}
                Err(error) => return Err(failed(error)),
            }
            folder = openat(&folder, part.as_os_str(), FOLDER | OFlags::NOFOLLOW, Mode::empty())
                .map_err(|error| match error {
                    Errno::LOOP | Errno::NOTDIR => Error::Outside { path: path.into() },
                    error => failed(error),
                })?;
        }
        Ok(folder)
    }

    fn start(&self) -> Result<OwnedFd, Error> {
        self.folder.try_clone().map_err(|source| Error::File { path: self.path.clone(), source })
    }

    /// Where a link leads that stands at the place itself: inside the root, or refused.
    fn behind_link(&self, place: Place, path: &str) -> Result<Place, Error> {
        if place.kind()? != Some(FileType::Symlink) {
            return Ok(place);
        }
        let outside = || Error::Outside { path: path.into() };
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let relative = path.trim_start_matches('/');
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let target = openat2(&self.folder, relative, flags, Mode::empty(), resolve)
            .map_err(|_| outside())?;
        let shown = name_of(target.as_fd()).ok_or_else(outside)?;
        let real = shown.strip_prefix(name_of(self.folder.as_fd()).ok_or_else(outside)?);
        let real = real.ok().and_then(Path::to_str).ok_or_else(outside)?;
        let (above, name) = self.parts(real)?;
        let folder = self.walked(&above, path)?.ok_or_else(outside)?;
        let place = Place { folder, name, shown };
        let found = place.status()?.ok_or_else(outside)?;
        let same = rustix::fs::fstat(&target).map_err(|_| outside())?;
        if (found.st_dev, found.st_ino) != (same.st_dev, same.st_ino) {
            return Err(outside());
        }
        Ok(place)
    }

    fn failed(&self, relative: &Path, error: Errno) -> Error {
        Error::File { path: self.path.join(relative), source: error.into() }
    }
}

impl Place {
    /// The place that a user names. Links of others on the way to its folder are not followed; a
    /// link at the place itself is followed if nobody else can have put it there.
    pub fn of(path: &Path) -> Result<Place, Error> {
        Place::followed(path, 8)
    }

    fn followed(path: &Path, most: usize) -> Result<Place, Error> {
        let failed = |error: Errno| Error::File { path: path.into(), source: error.into() };
        let name = path.file_name().ok_or_else(|| failed(Errno::ISDIR))?.to_owned();
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        let above = above.unwrap_or(Path::new("."));
        let folder = folder_of(above, path)?;
        let place = Place { folder, name, shown: path.into() };
        if place.kind()? != Some(FileType::Symlink) {
            return Ok(place);
        }
        if most == 0 || !place.is_link_of_ours()? {
            return Err(Error::Link { path: path.into() });
        }
        let target = rustix::fs::readlinkat(&place.folder, &place.name, vec![]).map_err(failed)?;
        let target = OsStr::from_bytes(target.as_bytes());
        Place::followed(&above.join(target), most - 1)
    }

    /// A link that this user or root made, in a folder that only they write to.
    fn is_link_of_ours(&self) -> Result<bool, Error> {
        let folder = rustix::fs::fstat(&self.folder).map_err(|error| self.failed(error))?;
        let link = self.status()?;
        Ok(link.is_some_and(|link| is_trusted(link.st_uid))
            && is_trusted(folder.st_uid)
            && folder.st_mode & 0o022 == 0)
    }

    /// The file's path as it was given.
    pub fn path(&self) -> &Path {
        &self.shown
    }

    /// What stands there, not followed.
    pub(crate) fn status(&self) -> Result<Option<Stat>, Error> {
        match statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => Ok(Some(status)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn kind(&self) -> Result<Option<FileType>, Error> {
        Ok(self.status()?.map(|status| FileType::from_raw_mode(status.st_mode)))
    }

    /// The file to be read; `None` if there is none. Only an ordinary file is opened: a FIFO would
    /// wait, a device would act.
    pub fn open(&self) -> Result<Option<File>, Error> {
        let is_file = |kind: FileType| match kind {
            FileType::RegularFile => Ok(()),
            kind => Err(Error::Special { path: self.shown.clone(), kind: name_of_kind(kind) }),
        };
        match self.kind()? {
            None => return Ok(None),
            Some(kind) => is_file(kind)?,
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&self.folder, &self.name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(self.failed(error)),
        };
        let status = rustix::fs::fstat(&file).map_err(|error| self.failed(error))?;
        is_file(FileType::from_raw_mode(status.st_mode))?;
        Ok(Some(file.into()))
    }

    /// Removes the file; whether there was one.
    pub fn remove(&self) -> Result<bool, Error> {
        match rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty()) {
            Ok(()) => sync(&self.folder).map(|()| true).map_err(|error| self.failed(error)),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(self.failed(error)),
        }
    }

    pub(crate) fn failed(&self, error: Errno) -> Error {
        Error::File { path: self.shown.clone(), source: error.into() }
    }
}

/// The folder of a path that a user names. A link on the way is followed if this user or root made
/// it: others would choose the folder. Errors name the file, `shown`.
fn folder_of(path: &Path, shown: &Path) -> Result<OwnedFd, Error> {
    let failed = |error: Errno| Error::File { path: shown.into(), source: error.into() };
    let (read, reach) = (FOLDER | OFlags::RDONLY, FOLDER | OFlags::PATH);
    match openat2(rustix::fs::CWD, path, read, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(folder) => return Ok(folder),
        // There is a link; or Linux before 5.6, and sandboxes that do not know the call.
        Err(Errno::LOOP | Errno::NOSYS | Errno::PERM) => {}
        Err(error) => return Err(failed(error)),
    }
    let mut folder = openat(rustix::fs::CWD, ".", reach, Mode::empty()).map_err(failed)?;
    let mut left: Vec<OsString> = parts(path);
    let mut links = 0;
    while let Some(part) = left.pop() {
        match openat(&folder, &part, reach | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(next) => folder = next,
            Err(Errno::LOOP | Errno::NOTDIR) => {
                let link = statat(&folder, &part, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
                if FileType::from_raw_mode(link.st_mode) != FileType::Symlink {
                    return Err(failed(Errno::NOTDIR));
                }
                links += 1;
                if links > MOST_LINKS || !is_trusted(link.st_uid) {
                    return Err(Error::Link { path: shown.into() });
                }
                let target = rustix::fs::readlinkat(&folder, &part, vec![]).map_err(failed)?;
                let target = OsStr::from_bytes(target.as_bytes());
                left.extend(parts(Path::new(target)));
            }
            Err(error) => return Err(failed(error)),
        }
    }
    openat(&folder, ".", read, Mode::empty()).map_err(failed)
}

/// As many as the kernel follows.
const MOST_LINKS: usize = 40;

/// The parts of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
}

fn is_trusted(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

/// What was done to a folder, on the disk. File systems that cannot are those that need not.
pub(crate) fn sync(folder: &OwnedFd) -> Result<(), Errno> {
    match rustix::fs::fsync(folder) {
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::ROFS) => Ok(()),
        outcome => outcome,
    }
}

/// The names in a folder; those that are not UTF-8 are none of ours.
pub(crate) fn names(folder: &OwnedFd, shown: &Path) -> Result<Vec<String>, Error> {
    let failed = |error: Errno| Error::File { path: shown.into(), source: error.into() };
    let mut found = vec![];
    for entry in rustix::fs::Dir::read_from(folder).map_err(failed)?.take(MOST_NAMES) {
        let name = entry.map_err(failed)?.file_name().to_str().map(str::to_owned);
        found.extend(name.ok().filter(|name| name != "." && name != ".."));
    }
    Ok(found)
}

/// Bound on the entries of a folder.
const MOST_NAMES: usize = 100_000;

/// The path of what is open, as the kernel has it.
fn name_of(file: std::os::fd::BorrowedFd) -> Option<PathBuf> {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

pub(crate) fn name_of_kind(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::BlockDevice | FileType::CharacterDevice => "a device",
        _ => "something else",
    }
}

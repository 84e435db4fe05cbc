//! Where a file is below the folder, and the only ways to it.

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, ResolveFlags, Stat, fstat, openat2};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Bytes of a path that the kernel takes, without the NUL.
const LONGEST_PATH: usize = 4095;
/// Every component is in the folder, and none is a link.
const INSIDE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// Names from the folder down, with a slash between; the folder itself is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place(Vec<u8>);

impl Place {
    /// The place of a name in this folder.
    pub fn child(&self, name: Name<'_>) -> Result<Self, Errno> {
        let mut path = self.0.clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend(name.0);
        if path.len() > LONGEST_PATH { Err(Errno::NAMETOOLONG) } else { Ok(Self(path)) }
    }

    /// The folder that this is in; the folder itself stays where it is.
    pub fn parent(&self) -> Self {
        let end = self.0.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        Self(self.0[..end].to_vec())
    }

    /// The name in the folder that it is in.
    pub fn name(&self) -> Result<Name<'_>, Errno> {
        let start = self.0.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        Name::of(&self.0[start..]).map_err(|_| Errno::BUSY)
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Where this is once `from` has become `to`, if it was there or below.
    pub fn moved(&self, from: &Self, to: &Self) -> Option<Self> {
        let rest = self.0.strip_prefix(from.0.as_slice())?;
        let is_below = rest.is_empty() || rest.starts_with(b"/");
        is_below.then(|| Self([to.0.as_slice(), rest].concat()))
    }

    fn path(&self) -> &OsStr {
        OsStr::from_bytes(if self.is_root() { b"." } else { &self.0 })
    }
}

/// A name in a folder: not empty, without a slash, no way up.
#[derive(Clone, Copy)]
pub struct Name<'a>(&'a [u8]);

impl<'a> Name<'a> {
    pub fn of(bytes: &'a [u8]) -> Result<Self, Errno> {
        let is_way = matches!(bytes, b"" | b"." | b"..");
        let is_path = bytes.iter().any(|byte| matches!(byte, b'/' | 0));
        if is_way || is_path { Err(Errno::INVAL) } else { Ok(Self(bytes)) }
    }

    pub fn path(self) -> &'a OsStr {
        OsStr::from_bytes(self.0)
    }
}

/// The folder, as it is open.
#[derive(Debug)]
pub struct Folder {
    root: OwnedFd,
    device: u64,
}

impl Folder {
    pub fn new(root: OwnedFd) -> Result<Self, Errno> {
        let device = fstat(&root)?.st_dev;
        Ok(Self { root, device })
    }

    /// Opens what is at a place.
    pub fn open(&self, place: &Place, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        openat2(&self.root, place.path(), flags, Mode::empty(), INSIDE)
    }

    /// Opens a new file in the folder at a place.
    pub fn create(
        &self,
        folder: &OwnedFd,
        name: Name<'_>,
        flags: OFlags,
        mode: Mode,
    ) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        openat2(folder, name.path(), flags, mode, INSIDE)
    }

    /// A folder at a place, to act on names in it.
    pub fn open_folder(&self, place: &Place) -> Result<OwnedFd, Errno> {
        self.open(place, OFlags::PATH | OFlags::DIRECTORY)
    }

    pub fn look(&self, place: &Place) -> Result<Stat, Errno> {
        fstat(self.open(place, OFlags::PATH)?)
    }

    /// What tells a file from all others: its inode, with what is mounted below told apart.
    pub fn identity(&self, device: u64, inode: u64) -> u64 {
        inode ^ (device ^ self.device).rotate_right(20)
    }
}

//! What files are: kinds and identities, attributes, and the file system's size.

use crate::message::{Reader, Writer};
use crate::{Access, Share};
use rustix::fs::{FileType, OFlags, Stat, fstat, fstatvfs};
use rustix::io::Errno;

/// All that Linux asks for but the time of birth, generation and version.
const BASIC: u64 = 0x7FF;
/// The type that Linux shows for such a file system.
const MAGIC: u32 = 0x0102_1997;

mod qid_kind {
    pub const FOLDER: u8 = 0x80;
    pub const LINK: u8 = 0x02;
    pub const FILE: u8 = 0;
}

/// The kind that a qid shows.
pub fn kind_of(file_type: FileType) -> u8 {
    match file_type {
        FileType::Directory => qid_kind::FOLDER,
        FileType::Symlink => qid_kind::LINK,
        _ => qid_kind::FILE,
    }
}

impl Share {
    /// Kind, version, path: what says whether a guest's copy is still good.
    pub(crate) fn put_qid(&self, answer: &mut Vec<u8>, stat: &Stat) {
        answer.push(kind_of(FileType::from_raw_mode(stat.st_mode)));
        answer.put_u32(stat.st_mtime as u32 ^ (stat.st_size as u32) << 8);
        answer.put_u64(self.folder.identity(stat.st_dev, stat.st_ino));
    }

    /// What a fid stands for, where it may have lost its name already.
    pub(crate) fn look(&self, number: u32) -> Result<Stat, Errno> {
        let fid = self.fids.get(number)?;
        match &fid.file {
            Some(file) => fstat(file),
            None => self.folder.look(&fid.place),
        }
    }

    #[expect(clippy::unnecessary_cast, reason = "widths differ from architecture to architecture")]
    pub(crate) fn get_attributes(
        &self,
        body: &mut Reader<'_>,
        answer: &mut Vec<u8>,
    ) -> Result<(), Errno> {
        let stat = self.look(body.u32()?)?;
        answer.put_u64(BASIC);
        self.put_qid(answer, &stat);
        for value in [stat.st_mode, stat.st_uid, stat.st_gid] {
            answer.put_u32(value);
        }
        // Reading moves the time of access, so where nothing is written nobody sees it.
        let accessed = match self.access {
            Access::ReadOnly => (stat.st_mtime, stat.st_mtime_nsec),
            Access::Writable => (stat.st_atime, stat.st_atime_nsec),
        };
        for value in [
            stat.st_nlink as u64,
            stat.st_rdev,
            stat.st_size as u64,
            stat.st_blksize as u64,
            stat.st_blocks as u64,
            accessed.0 as u64,
            accessed.1 as u64,
            stat.st_mtime as u64,
            stat.st_mtime_nsec as u64,
            stat.st_ctime as u64,
            stat.st_ctime_nsec as u64,
            0,
            0,
            0,
            0,
        ] {
            answer.put_u64(value);
        }
        Ok(())
    }

    pub(crate) fn get_size(
        &self,
        body: &mut Reader<'_>,
        answer: &mut Vec<u8>,
    ) -> Result<(), Errno> {
        let fid = self.fids.get(body.u32()?)?;
        let size = fstatvfs(self.folder.open(&fid.place, OFlags::PATH)?)?;
        let free = |count: u64| if self.access == Access::Writable { count } else { 0 };
        answer.put_u32(MAGIC);
        answer.put_u32(size.f_bsize as u32);
        for value in [
            size.f_blocks,
            free(size.f_bfree),
            free(size.f_bavail),
            size.f_files,
            free(size.f_ffree),
            0,
        ] {
            answer.put_u64(value);
        }
        answer.put_u32(size.f_namemax as u32);
        Ok(())
    }
}

//! Reading folders, in the order in which this computer's file system has them.

use crate::Share;
use crate::attribute::kind_of;
use crate::message::{Reader, Writer};
use rustix::fs::{FileType, RawDir, SeekFrom, fstat, seek};
use rustix::io::Errno;
use std::mem::MaybeUninit;

/// Bytes that are read of a folder at a time.
const PIECE: usize = 32 << 10;
/// Qid, offset, type, and the count of the name's bytes.
const ENTRY_SIZE: usize = 13 + 8 + 1 + 2;

impl Share {
    pub(crate) fn read_folder(
        &self,
        body: &mut Reader<'_>,
        answer: &mut Vec<u8>,
        most: usize,
    ) -> Result<(), Errno> {
        let (number, offset, count) = (body.u32()?, body.u64()?, body.u32()?);
        let fid = self.fids.get(number)?;
        let folder = fid.file.as_ref().ok_or(Errno::BADF)?;
        let stat = fstat(folder)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        let start = answer.len();
        answer.put_u32(0);
        let end = most.min((start + 4).saturating_add(count as usize));
        // A copy of the machine may have read on in the same file.
        seek(folder, SeekFrom::Start(offset))?;
        let mut buffer = vec![MaybeUninit::uninit(); PIECE];
        let mut entries = RawDir::new(folder, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if answer.len() + ENTRY_SIZE + name.len() > end {
                break;
            }
            // What the folder itself is in is nobody's business inside.
            let is_way_out = name == b".." && fid.place.is_root();
            let inode = if is_way_out { stat.st_ino } else { entry.ino() };
            answer.push(kind_of(entry.file_type()));
            answer.put_u32(0);
            answer.put_u64(self.folder.identity(stat.st_dev, inode));
            answer.put_u64(entry.next_entry_cookie());
            answer.push(linux_type(entry.file_type()));
            answer.put_text(name);
        }
        let length = (answer.len() - start - 4) as u32;
        answer[start..start + 4].copy_from_slice(&length.to_le_bytes());
        Ok(())
    }
}

/// As `readdir` of Linux has it.
fn linux_type(file_type: FileType) -> u8 {
    match file_type {
        FileType::Fifo => 1,
        FileType::CharacterDevice => 2,
        FileType::Directory => 4,
        FileType::BlockDevice => 6,
        FileType::RegularFile => 8,
        FileType::Symlink => 10,
        FileType::Socket => 12,
        FileType::Unknown => 0,
    }
}

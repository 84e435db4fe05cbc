//! Disk images in files of the host: raw sectors, or QEMU's qcow2.
//!
//! A disk over an image normally keeps its writes in an overlay of its own, so a run leaves the
//! image as it was, a snapshot holds what was written, and the same run twice sees the same disk.
//! Written through, the image is the disk, and what a run does depends on what runs before did.
//! An image must not be changed by others while a machine uses it.

mod qcow2;

use device::storage::{Disk, SECTOR_SIZE, Storage, StorageError, WriteMode};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Why an image cannot be a disk.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The host does not let us.
    #[error("{file}: cannot open the disk image")]
    Open {
        /// The path.
        file: String,
        /// The host's reason.
        source: std::io::Error,
    },
    /// It has no whole number of sectors.
    #[error("{file}: size {size} is not a disk's, must be a multiple of 512 bytes and not 0")]
    Size {
        /// The path.
        file: String,
        /// Its bytes.
        size: u64,
    },
    /// It is a qcow2 image that cannot be followed.
    #[error("{file}: {reason}")]
    Qcow2 {
        /// The path.
        file: String,
        /// What it has that is not read.
        reason: String,
    },
}

#[derive(Debug)]
struct ImageFile {
    file: Arc<File>,
    sectors: u64,
}

/// Opens an image as a disk.
pub fn open(path: &Path, mode: WriteMode) -> Result<Disk, ImageError> {
    let name = || path.display().to_string();
    let failed = |source| ImageError::Open { file: name(), source };
    let is_written = mode == WriteMode::Through;
    let file = OpenOptions::new().read(true).write(is_written).open(path).map_err(failed)?;
    let mut magic = [0; 4];
    if file.read_exact_at(&mut magic, 0).is_err() || magic != qcow2::MAGIC {
        return Ok(Disk::new(Box::new(ImageFile::new(file, path)?), mode));
    }
    let refused = |reason| ImageError::Qcow2 { file: name(), reason };
    if is_written {
        return Err(refused("a qcow2 image is not written to: leave out write-through".into()));
    }
    let image = qcow2::Qcow2::open(Arc::new(file)).map_err(refused)?;
    Ok(Disk::new(Box::new(image), mode))
}

impl ImageFile {
    fn new(mut file: File, path: &Path) -> Result<Self, ImageError> {
        let name = || path.display().to_string();
        // A block device has no length of its own; its end does.
        let size = std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0))
            .map_err(|source| ImageError::Open { file: name(), source })?;
        if size == 0 || !size.is_multiple_of(SECTOR_SIZE as u64) {
            return Err(ImageError::Size { file: name(), size });
        }
        Ok(Self { file: Arc::new(file), sectors: size / SECTOR_SIZE as u64 })
    }
}

impl Storage for ImageFile {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn read_at(&mut self, sector: u64, into: &mut [u8]) -> Result<(), StorageError> {
        self.file.read_exact_at(into, sector * SECTOR_SIZE as u64).map_err(|_| StorageError)
    }

    fn write_at(&mut self, sector: u64, from: &[u8]) -> Result<(), StorageError> {
        self.file.write_all_at(from, sector * SECTOR_SIZE as u64).map_err(|_| StorageError)
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        self.file.sync_data().map_err(|_| StorageError)
    }

    fn duplicate(&self) -> Box<dyn Storage> {
        Box::new(Self { file: Arc::clone(&self.file), sectors: self.sectors })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Image(std::path::PathBuf);

    impl Image {
        fn new(name: &str, bytes: &[u8]) -> Self {
            let name = format!("avicenna-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::write(&path, bytes).expect("a temporary file");
            Self(path)
        }

        fn bytes(&self) -> Vec<u8> {
            std::fs::read(&self.0).expect("the image is there")
        }
    }

    impl Drop for Image {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn only_a_disk_written_through_changes_its_image() {
        for (mode, accepted, first) in [
            (WriteMode::Overlay, true, 1),
            (WriteMode::Through, true, 2),
            (WriteMode::Refused, false, 1),
        ] {
            let image = Image::new(&format!("{mode:?}"), &[1; 2048]);
            let mut disk = open(&image.0, mode).unwrap();
            assert_eq!(disk.sectors(), 4);
            assert_eq!(disk.write(0, &[2; 512]).is_ok(), accepted, "{mode:?}");
            assert_eq!(image.bytes()[0], first, "{mode:?}");
            let mut read = [0; 512];
            disk.read(0, &mut read).unwrap();
            assert_eq!(read[0], if accepted { 2 } else { 1 }, "{mode:?}");
        }
    }

    #[test]
    fn what_is_no_image_is_refused_with_its_name_and_size() {
        let image = Image::new("odd", &[0; 1000]);
        let message = open(&image.0, WriteMode::Overlay).unwrap_err().to_string();
        assert!(message.contains("size 1000") && message.contains("odd"), "{message}");
        let message = open(Path::new("/no/such"), WriteMode::Overlay).unwrap_err().to_string();
        assert!(message.starts_with("/no/such: cannot open"), "{message}");
    }
}

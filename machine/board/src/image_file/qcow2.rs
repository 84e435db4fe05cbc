//! Images in QEMU's format qcow2, versions 2 and 3, for reading: writes stay in the disk's overlay.
//! [QCOW2 "Header", "L1/L2 tables", "Cluster descriptors"]
//!
//! An image that needs a second file (a backing file, external data) is refused, so that a path
//! which a guest or a stranger wrote into it leads nowhere; so are encrypted ones, those marked
//! corrupt, and extended L2 entries.

use device::storage::{SECTOR_SIZE, Storage, StorageError};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// "QFI" and FBh.
pub(super) const MAGIC: [u8; 4] = [0x51, 0x46, 0x49, 0xFB];
const HEADER_SIZE: usize = 112;
/// Tables kept in memory: each is a cluster, 64 KiB mostly, and tells of 512 MiB of the disk then.
const TABLES_KEPT: usize = 32;
/// 32 MiB of first-level table, as QEMU has its bound.
const MOST_L1_ENTRIES: u32 = (32 << 20) / 8;
/// What a packed cluster may ask of its unpacker, which needs no more than the largest cluster.
const LARGEST_WINDOW_BITS: u32 = 23;
const OFFSET: u64 = 0x00FF_FFFF_FFFF_FE00;
const IS_COMPRESSED: u64 = 1 << 62;
/// Version 3: the cluster reads as zeroes.
const IS_ZERO: u64 = 1;

/// Incompatible features. [QCOW2 "Header"]
mod feature {
    pub const CORRUPT: u64 = 1 << 1;
    pub const EXTERNAL_DATA: u64 = 1 << 2;
    /// Byte 104 of the header names the compression.
    pub const COMPRESSION: u64 = 1 << 3;
    /// Reference counts may be behind: nothing to a reader.
    pub const DIRTY: u64 = 1 << 0;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    Deflate,
    Zstandard,
}

/// An image that is open.
#[derive(Debug)]
pub(super) struct Qcow2 {
    file: Arc<File>,
    sectors: u64,
    cluster_bits: u32,
    compression: Compression,
    /// Offsets of second-level tables, 0 where there is none.
    l1: Arc<[u64]>,
    /// Second-level tables by their offsets, the one used last at the front.
    tables: VecDeque<(u64, Arc<[u64]>)>,
    /// The cluster that was unpacked last, by its descriptor.
    unpacked: Option<(u64, Arc<[u8]>)>,
}

impl Qcow2 {
    /// Reads header and first-level table; what is wrong with them, in words.
    pub fn open(file: Arc<File>) -> Result<Self, String> {
        let mut header = [0; HEADER_SIZE];
        let length = read_up_to(&file, 0, &mut header).map_err(|error| error.to_string())?;
        let word = |at: usize| be32(&header[at..]);
        let long = |at: usize| be64(&header[at..]);
        let version = word(4);
        if length < 72 || !matches!(version, 2 | 3) {
            return Err(format!("qcow2 of version {version}, must be 2 or 3"));
        }
        let (features, compression) = match version {
            3 => (long(72), if word(100) > 104 { header[104] } else { 0 }),
            _ => (0, 0),
        };
        check(features, long(8), word(32))?;
        let cluster_bits = word(20);
        if !(9..=21).contains(&cluster_bits) {
            return Err(format!("clusters of 2^{cluster_bits} bytes, must be of 2^9 to 2^21"));
        }
        let compression = match compression {
            0 => Compression::Deflate,
            1 => Compression::Zstandard,
            other => return Err(format!("compression {other}, must be 0 (deflate) or 1 (zstd)")),
        };
        let (size, entries) = (long(24), word(36));
        if size == 0 || !size.is_multiple_of(SECTOR_SIZE as u64) {
            return Err(format!("a disk of {size} bytes, must be a multiple of 512 and not 0"));
        }
        let needed = size.div_ceil(1 << (2 * cluster_bits - 3));
        if u64::from(entries) < needed || entries > MOST_L1_ENTRIES {
            return Err(format!(
                "{entries} first-level entries, must be {needed} to {MOST_L1_ENTRIES}"
            ));
        }
        let l1 = read_table(&file, long(40), entries as usize)
            .map_err(|error| format!("its first-level table cannot be read: {error}"))?;
        Ok(Self {
            file,
            sectors: size / SECTOR_SIZE as u64,
            cluster_bits,
            compression,
            l1,
            tables: VecDeque::new(),
            unpacked: None,
        })
    }

    fn cluster_size(&self) -> usize {
        1 << self.cluster_bits
    }

    /// The descriptor of a cluster of the disk; 0 where nothing was ever written.
    fn descriptor(&mut self, cluster: u64) -> Result<u64, StorageError> {
        let index_bits = self.cluster_bits - 3;
        let first = usize::try_from(cluster >> index_bits).map_err(|_| StorageError)?;
        let offset = self.l1.get(first).ok_or(StorageError)? & OFFSET;
        if offset == 0 {
            return Ok(0);
        }
        let table = self.table(offset)?;
        Ok(table[(cluster & ((1 << index_bits) - 1)) as usize])
    }

    fn table(&mut self, offset: u64) -> Result<Arc<[u64]>, StorageError> {
        let known = self.tables.iter().position(|(at, _)| *at == offset);
        let entry = match known.and_then(|place| self.tables.remove(place)) {
            Some(entry) => entry,
            None => {
                let table = read_table(&self.file, offset, self.cluster_size() / 8);
                (offset, table.map_err(|_| StorageError)?)
            }
        };
        let table = Arc::clone(&entry.1);
        self.tables.push_front(entry);
        self.tables.truncate(TABLES_KEPT);
        Ok(table)
    }

    /// Part of a cluster of the disk, from `within` on.
    fn read_cluster(
        &mut self,
        cluster: u64,
        within: usize,
        into: &mut [u8],
    ) -> Result<(), StorageError> {
        let descriptor = self.descriptor(cluster)?;
        if descriptor & IS_COMPRESSED != 0 {
            let bytes = self.unpacked(descriptor)?;
            into.copy_from_slice(&bytes[within..within + into.len()]);
            return Ok(());
        }
        into.fill(0);
        let offset = descriptor & OFFSET;
        if offset != 0 && descriptor & IS_ZERO == 0 {
            // The last cluster of a file may be shorter; the rest of it is zero.
            read_up_to(&self.file, offset + within as u64, into).map_err(|_| StorageError)?;
        }
        Ok(())
    }

    fn unpacked(&mut self, descriptor: u64) -> Result<Arc<[u8]>, StorageError> {
        if let Some((known, bytes)) = &self.unpacked
            && *known == descriptor
        {
            return Ok(Arc::clone(bytes));
        }
        let offset_bits = 62 - (self.cluster_bits - 8);
        let offset = descriptor & ((1 << offset_bits) - 1);
        let sectors = (descriptor & !IS_COMPRESSED & !(1 << 63)) >> offset_bits;
        let length = (sectors + 1) * SECTOR_SIZE as u64 - offset % SECTOR_SIZE as u64;
        // A packed cluster takes less than a cluster, and its sectors may overlap the next one's.
        if length > 2 * self.cluster_size() as u64 + SECTOR_SIZE as u64 {
            return Err(StorageError);
        }
        let mut packed = vec![0; length as usize];
        let present = read_up_to(&self.file, offset, &mut packed).map_err(|_| StorageError)?;
        let mut bytes = vec![0; self.cluster_size()];
        unpack(self.compression, &packed[..present], &mut bytes)?;
        let bytes: Arc<[u8]> = bytes.into();
        self.unpacked = Some((descriptor, Arc::clone(&bytes)));
        Ok(bytes)
    }
}

/// What this reader does not follow.
fn check(features: u64, backing: u64, encryption: u32) -> Result<(), String> {
    let known = feature::DIRTY | feature::COMPRESSION;
    let refused = [
        (backing != 0, "a backing file: make one image of both with qemu-img convert"),
        (encryption != 0, "encryption"),
        (features & feature::CORRUPT != 0, "the mark that it is corrupt: qemu-img check -r all"),
        (features & feature::EXTERNAL_DATA != 0, "data in another file: qemu-img convert"),
        (
            features & !known & !feature::CORRUPT & !feature::EXTERNAL_DATA != 0,
            "features unknown here",
        ),
    ];
    match refused.into_iter().find(|(is_there, _)| *is_there) {
        Some((_, what)) => Err(format!("a qcow2 image with {what}")),
        None => Ok(()),
    }
}

/// Fills all of `into`, which is a cluster.
fn unpack(compression: Compression, packed: &[u8], into: &mut [u8]) -> Result<(), StorageError> {
    let result = match compression {
        Compression::Deflate => flate2::read::DeflateDecoder::new(packed).read_exact(into),
        Compression::Zstandard => {
            zstd::stream::read::Decoder::with_buffer(packed).and_then(|mut decoder| {
                decoder.window_log_max(LARGEST_WINDOW_BITS)?;
                decoder.read_exact(into)
            })
        }
    };
    result.map_err(|_| StorageError)
}

fn read_table(file: &File, offset: u64, entries: usize) -> std::io::Result<Arc<[u64]>> {
    let mut bytes = vec![0; entries * 8];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes.chunks_exact(8).map(be64).collect())
}

/// Up to the end of the file; how much that was.
fn read_up_to(file: &File, offset: u64, into: &mut [u8]) -> std::io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

fn be32(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |word| u32::from_be_bytes(*word))
}

fn be64(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |word| u64::from_be_bytes(*word))
}

impl Storage for Qcow2 {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn read_at(&mut self, sector: u64, into: &mut [u8]) -> Result<(), StorageError> {
        let (mut at, mut rest) = (sector * SECTOR_SIZE as u64, into);
        while !rest.is_empty() {
            let within = (at as usize) & (self.cluster_size() - 1);
            let length = rest.len().min(self.cluster_size() - within);
            let (part, behind) = rest.split_at_mut(length);
            self.read_cluster(at >> self.cluster_bits, within, part)?;
            (at, rest) = (at + length as u64, behind);
        }
        Ok(())
    }

    /// The overlay in front of the image takes all writes.
    fn write_at(&mut self, _: u64, _: &[u8]) -> Result<(), StorageError> {
        Err(StorageError)
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        Ok(())
    }

    fn duplicate(&self) -> Box<dyn Storage> {
        Box::new(Self {
            file: Arc::clone(&self.file),
            l1: Arc::clone(&self.l1),
            tables: self.tables.clone(),
            unpacked: self.unpacked.clone(),
            ..*self
        })
    }
}

#[cfg(test)]
mod tests;

//! What a disk keeps its sectors in: a storage that the board provides, in front of it, where
//! wanted, an overlay that takes all writes so that a snapshot is a copy of the overlay.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes per sector, for requests and sizes.
pub const SECTOR_SIZE: usize = 512;
const BLOCK_SECTORS: u64 = 8;
const BLOCK_SIZE: usize = SECTOR_SIZE * BLOCK_SECTORS as usize;
/// Blocks that an overlay takes: 4 GiB. A guest decides which it writes, of an image that may be
/// far larger than the host's memory.
const MOST_BLOCKS: usize = 1 << 20;

/// The storage could not do what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageError;

/// Sectors of 512 bytes. Slices passed are whole sectors inside the storage.
pub trait Storage: core::fmt::Debug + Send + Sync {
    /// How many sectors there are; it does not change.
    fn sectors(&self) -> u64;
    /// Fills `into` from `sector` on.
    fn read_at(&mut self, sector: u64, into: &mut [u8]) -> Result<(), StorageError>;
    /// Puts `from` at `sector` on; it may stay in buffers until a flush.
    fn write_at(&mut self, sector: u64, from: &[u8]) -> Result<(), StorageError>;
    /// Returns when what was written would survive a loss of power.
    fn flush(&mut self) -> Result<(), StorageError>;
    /// The same storage for a copy of the machine.
    fn duplicate(&self) -> Box<dyn Storage>;
}

/// Sectors in memory. A last, incomplete sector is filled up with zeroes.
#[derive(Clone, Debug)]
pub struct MemoryStorage(Vec<u8>);

impl MemoryStorage {
    /// Storage that begins with these bytes.
    pub fn new(mut bytes: Vec<u8>) -> Self {
        bytes.resize(bytes.len().next_multiple_of(SECTOR_SIZE), 0);
        Self(bytes)
    }

    fn range(&self, sector: u64, length: usize) -> Result<core::ops::Range<usize>, StorageError> {
        let start = usize::try_from(sector).ok().and_then(|s| s.checked_mul(SECTOR_SIZE));
        let start = start.ok_or(StorageError)?;
        let end = start.checked_add(length).filter(|end| *end <= self.0.len());
        Ok(start..end.ok_or(StorageError)?)
    }
}

impl Storage for MemoryStorage {
    fn sectors(&self) -> u64 {
        (self.0.len() / SECTOR_SIZE) as u64
    }

    fn read_at(&mut self, sector: u64, into: &mut [u8]) -> Result<(), StorageError> {
        into.copy_from_slice(&self.0[self.range(sector, into.len())?]);
        Ok(())
    }

    fn write_at(&mut self, sector: u64, from: &[u8]) -> Result<(), StorageError> {
        let range = self.range(sector, from.len())?;
        self.0[range].copy_from_slice(from);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        Ok(())
    }

    fn duplicate(&self) -> Box<dyn Storage> {
        Box::new(self.clone())
    }
}

/// Where writes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteMode {
    /// Into the overlay: the storage below is never changed.
    Overlay,
    /// Into the storage, which a snapshot then does not hold.
    Through,
    /// Nowhere: the guest sees a read-only disk.
    Refused,
}

/// The storage below is not part of a snapshot: a restored disk has none until
/// [`Disk::attach`] gives it one of the same size.
#[derive(Debug, Serialize, Deserialize)]
pub struct Disk {
    #[serde(skip)]
    below: Option<Box<dyn Storage>>,
    sectors: u64,
    mode: WriteMode,
    /// Blocks that were written, by number.
    overlay: BTreeMap<u64, Vec<u8>>,
}

impl Clone for Disk {
    fn clone(&self) -> Self {
        Self {
            below: self.storage(),
            sectors: self.sectors,
            mode: self.mode,
            overlay: self.overlay.clone(),
        }
    }
}

impl Disk {
    /// A disk over `below` with an empty overlay.
    pub fn new(below: Box<dyn Storage>, mode: WriteMode) -> Self {
        let sectors = below.sectors();
        Self { below: Some(below), sectors, mode, overlay: BTreeMap::new() }
    }

    /// A disk over bytes in memory, which stay as they are.
    pub fn in_memory(bytes: Vec<u8>) -> Self {
        Self::new(Box::new(MemoryStorage::new(bytes)), WriteMode::Overlay)
    }

    /// Gives a restored disk its storage; refused if the size is another.
    pub fn attach(&mut self, below: Box<dyn Storage>) -> Result<(), StorageError> {
        if below.sectors() != self.sectors {
            return Err(StorageError);
        }
        self.below = Some(below);
        Ok(())
    }

    /// The storage below, once more, if there is one.
    pub fn storage(&self) -> Option<Box<dyn Storage>> {
        self.below.as_ref().map(|storage| storage.duplicate())
    }

    /// The size that the guest sees.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Where writes go; fixed for the disk's life.
    pub fn mode(&self) -> WriteMode {
        self.mode
    }

    /// Whether the guest is to be told that writes fail.
    pub fn is_read_only(&self) -> bool {
        self.mode == WriteMode::Refused
    }

    /// Whether `length` bytes from `sector` on are whole sectors of the disk.
    pub fn holds(&self, sector: u64, length: u64) -> bool {
        let sectors = length / SECTOR_SIZE as u64;
        length.is_multiple_of(SECTOR_SIZE as u64)
            && sector.checked_add(sectors).is_some_and(|end| end <= self.sectors)
    }

    /// Reads whole sectors, the overlay before what lies below it.
    pub fn read(&mut self, sector: u64, into: &mut [u8]) -> Result<(), StorageError> {
        if !self.holds(sector, into.len() as u64) {
            return Err(StorageError);
        }
        if self.mode != WriteMode::Overlay || self.overlay.is_empty() {
            return self.below()?.read_at(sector, into);
        }
        for (piece, sector) in pieces(sector, into.len()) {
            let into = &mut into[piece];
            match self.overlay.get(&(sector / BLOCK_SECTORS)) {
                Some(block) => {
                    let start = (sector % BLOCK_SECTORS) as usize * SECTOR_SIZE;
                    into.copy_from_slice(&block[start..start + into.len()]);
                }
                None => self.below()?.read_at(sector, into)?,
            }
        }
        Ok(())
    }

    /// Writes whole sectors to where the mode says.
    pub fn write(&mut self, sector: u64, from: &[u8]) -> Result<(), StorageError> {
        if !self.holds(sector, from.len() as u64) {
            return Err(StorageError);
        }
        match self.mode {
            WriteMode::Refused => Err(StorageError),
            WriteMode::Through => self.below()?.write_at(sector, from),
            WriteMode::Overlay => self.write_overlay(sector, from, MOST_BLOCKS),
        }
    }

    /// Flushes the storage if writes went there; an overlay has nothing to lose.
    pub fn flush(&mut self) -> Result<(), StorageError> {
        if self.mode == WriteMode::Through { self.below()?.flush() } else { Ok(()) }
    }

    /// Writes sectors to an overlay of so many blocks at most; what is more fails, as on a disk
    /// without spare sectors.
    fn write_overlay(&mut self, sector: u64, from: &[u8], most: usize) -> Result<(), StorageError> {
        pieces(sector, from.len())
            .try_for_each(|(piece, sector)| self.write_block(sector, &from[piece], most))
    }

    /// The same for sectors that lie in one block.
    fn write_block(&mut self, sector: u64, from: &[u8], most: usize) -> Result<(), StorageError> {
        let number = sector / BLOCK_SECTORS;
        if !self.overlay.contains_key(&number) {
            if self.overlay.len() >= most {
                return Err(StorageError);
            }
            let mut block = vec![0; BLOCK_SIZE];
            let first = number * BLOCK_SECTORS;
            let present = (self.sectors - first).min(BLOCK_SECTORS) as usize * SECTOR_SIZE;
            if from.len() < present {
                self.below()?.read_at(first, &mut block[..present])?;
            }
            self.overlay.insert(number, block);
        }
        let start = (sector % BLOCK_SECTORS) as usize * SECTOR_SIZE;
        let block = self.overlay.get_mut(&number).ok_or(StorageError)?;
        block[start..start + from.len()].copy_from_slice(from);
        Ok(())
    }

    fn below(&mut self) -> Result<&mut dyn Storage, StorageError> {
        match &mut self.below {
            Some(storage) => Ok(storage.as_mut()),
            None => Err(StorageError),
        }
    }
}

/// Splits a transfer at block boundaries: ranges of the buffer and the sectors they start at.
fn pieces(sector: u64, length: usize) -> impl Iterator<Item = (core::ops::Range<usize>, u64)> {
    let mut done = 0;
    core::iter::from_fn(move || {
        let at = sector + (done / SECTOR_SIZE) as u64;
        let room = (BLOCK_SECTORS - at % BLOCK_SECTORS) as usize * SECTOR_SIZE;
        let piece = room.min(length - done);
        let range = done..done + piece;
        done += piece;
        (piece > 0).then_some((range, at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(sectors: u8) -> Vec<u8> {
        (0..sectors).flat_map(|sector| [sector; SECTOR_SIZE]).collect()
    }

    fn sectors_of(disk: &mut Disk, sector: u64, count: usize) -> Vec<u8> {
        let mut buffer = vec![0xEE; count * SECTOR_SIZE];
        disk.read(sector, &mut buffer).unwrap();
        buffer.chunks(SECTOR_SIZE).map(|sector| sector[0]).collect()
    }

    #[test]
    fn an_overlay_takes_writes_at_any_alignment_and_leaves_the_storage_alone() {
        for (sector, count) in [(0, 1), (7, 2), (8, 8), (5, 20), (27, 1), (0, 28)] {
            let mut disk = Disk::in_memory(bytes(28));
            disk.write(sector, &vec![0xAA; count * SECTOR_SIZE]).unwrap();
            let expected: Vec<u8> = (0..28)
                .map(|s| if (sector..sector + count as u64).contains(&s) { 0xAA } else { s as u8 })
                .collect();
            assert_eq!(sectors_of(&mut disk, 0, 28), expected, "{count} at {sector}");
            let mut below = disk.below.take().unwrap();
            let mut buffer = vec![0; 28 * SECTOR_SIZE];
            below.read_at(0, &mut buffer).unwrap();
            assert_eq!(buffer, bytes(28));
        }
    }

    #[test]
    fn an_overlay_that_is_full_takes_no_further_block_and_keeps_what_it_has() {
        let mut disk = Disk::in_memory(bytes(32));
        assert_eq!(disk.write_overlay(0, &vec![9; 24 * SECTOR_SIZE], 2), Err(StorageError));
        assert_eq!(disk.write_overlay(15, &[7; SECTOR_SIZE], 2), Ok(()));
        assert_eq!(disk.write_overlay(31, &[7; SECTOR_SIZE], 2), Err(StorageError));
        assert_eq!(sectors_of(&mut disk, 14, 3), [9, 7, 16]);
    }

    #[test]
    fn modes_decide_where_writes_go() {
        for (mode, result, seen) in [
            (WriteMode::Overlay, Ok(()), 9),
            (WriteMode::Through, Ok(()), 9),
            (WriteMode::Refused, Err(StorageError), 1),
        ] {
            let mut disk = Disk::new(Box::new(MemoryStorage::new(bytes(4))), mode);
            assert_eq!(disk.write(1, &[9; SECTOR_SIZE]), result);
            assert_eq!(sectors_of(&mut disk, 1, 1), [seen], "{mode:?}");
            assert_eq!(disk.flush(), Ok(()));
        }
    }

    #[test]
    fn transfers_outside_the_disk_are_refused() {
        let mut disk = Disk::in_memory(bytes(4));
        for (sector, length) in [(4, 512), (3, 1024), (0, 511), (u64::MAX, 512)] {
            assert!(disk.read(sector, &mut vec![0; length]).is_err(), "{length} at {sector}");
            assert!(disk.write(sector, &vec![0; length]).is_err(), "{length} at {sector}");
        }
    }

    #[test]
    fn a_copy_goes_its_own_way_and_a_restored_disk_needs_its_storage() {
        let mut disk = Disk::in_memory(bytes(16));
        disk.write(0, &[7; SECTOR_SIZE]).unwrap();
        let mut copy = disk.clone();
        copy.write(0, &[8; SECTOR_SIZE]).unwrap();
        assert_eq!(sectors_of(&mut disk, 0, 1), [7]);
        assert_eq!(sectors_of(&mut copy, 0, 1), [8]);
        copy.below = None;
        assert!(copy.read(9, &mut [0; SECTOR_SIZE]).is_err());
        assert!(copy.attach(Box::new(MemoryStorage::new(bytes(15)))).is_err());
        copy.attach(Box::new(MemoryStorage::new(bytes(16)))).unwrap();
        assert_eq!(sectors_of(&mut copy, 0, 10), [8, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }
}

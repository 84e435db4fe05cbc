//! Reading a snapshot.

use super::{
    CHUNK, ConfigurationDigest, END, MAGIC, MOST_MEMORY, MOST_READ_ONLY, MOST_STATE, SnapshotError,
    VERSION, checksum,
};
use arch::address::PAGE_SIZE;
use bus::{GuestMemory, MemoryLayout};
use serde::de::DeserializeOwned;
use std::io::Read;
use trace::TraceHash;

/// What the file says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What the machine was built from.
    pub configuration: ConfigurationDigest,
    /// Bytes of RAM.
    pub memory: u64,
    /// Bytes of read-only memory below 4 GiB.
    pub read_only: u64,
    state_size: u64,
    state_hash: u64,
}

/// A snapshot whose head has been read.
pub struct SnapshotReader<'a, R: Read> {
    file: &'a str,
    input: R,
    offset: u64,
    head: Head,
}

impl<'a, R: Read> SnapshotReader<'a, R> {
    /// Reads the head. `file` is the name for messages.
    pub fn new(file: &'a str, input: R) -> Result<Self, SnapshotError> {
        let nothing = Head {
            configuration: ConfigurationDigest(0),
            memory: 0,
            read_only: 0,
            state_size: 0,
            state_hash: 0,
        };
        let mut reader = Self { file, input, offset: 0, head: nothing };
        let mut bytes = [0; 56];
        reader.fill(&mut bytes[..8], "the magic number")?;
        if bytes[..8] != *MAGIC {
            let mut found = [0; 8];
            found.copy_from_slice(&bytes[..8]);
            return Err(SnapshotError::NotASnapshot { file: file.into(), found });
        }
        reader.fill(&mut bytes[8..16], "the version")?;
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        if version != VERSION {
            return Err(SnapshotError::Version { file: file.into(), found: version });
        }
        reader.fill(&mut bytes[16..], "the head")?;
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let found = checksum(&bytes[..48]);
        if found != word(48) {
            return Err(reader.damaged("the head", 0, hash_mismatch(found, word(48))));
        }
        reader.head = Head {
            configuration: ConfigurationDigest(word(16)),
            memory: word(24),
            read_only: (word(8) >> 32) * PAGE_SIZE,
            state_size: word(32),
            state_hash: word(40),
        };
        reader.check_sizes()?;
        Ok(reader)
    }

    fn check_sizes(&self) -> Result<(), SnapshotError> {
        let sizes = [
            ("the size of RAM", 24, self.head.memory, MOST_MEMORY),
            ("the size of read-only memory", 12, self.head.read_only, MOST_READ_ONLY),
            ("the size of the state", 32, self.head.state_size, MOST_STATE),
        ];
        match sizes.iter().find(|(.., size, most)| size > most) {
            Some((what, offset, size, most)) => {
                Err(self.damaged(what, *offset, format!("is {size:#x}, must be at most {most:#x}")))
            }
            None => Ok(()),
        }
    }

    /// What the file says about itself.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Reads state and memory, if the snapshot is of a machine with this configuration.
    pub fn restore<S: DeserializeOwned>(
        mut self,
        configuration: ConfigurationDigest,
    ) -> Result<(S, GuestMemory), SnapshotError> {
        if self.head.configuration != configuration {
            return Err(SnapshotError::Configuration {
                file: self.file.into(),
                found: self.head.configuration,
                expected: configuration,
            });
        }
        let state = self.state()?;
        let mut memory = self.empty_memory()?;
        self.memory(&mut memory)?;
        self.end_of_file()?;
        Ok((state, memory))
    }

    fn state<S: DeserializeOwned>(&mut self) -> Result<S, SnapshotError> {
        let start = self.offset;
        let mut bytes = Vec::new();
        let read = self.input.by_ref().take(self.head.state_size).read_to_end(&mut bytes);
        read.map_err(|source| self.unreadable(source))?;
        self.offset += bytes.len() as u64;
        if (bytes.len() as u64) < self.head.state_size {
            return Err(self.truncated("the state", start));
        }
        let found = checksum(&bytes);
        if found != self.head.state_hash {
            let why = hash_mismatch(found, self.head.state_hash);
            return Err(self.damaged("the state", start, why));
        }
        match postcard::take_from_bytes(&bytes) {
            Ok((state, [])) => Ok(state),
            Ok((_, rest)) => {
                let why = format!("{} bytes are left over, must be none", rest.len());
                Err(self.damaged("the state", start, why))
            }
            Err(error) => Err(self.damaged("the state", start, error.to_string())),
        }
    }

    /// RAM of the head's size, if the host has the address space for it.
    fn empty_memory(&self) -> Result<GuestMemory, SnapshotError> {
        let size = self.head.memory;
        let layout = MemoryLayout::with_read_only(size, self.head.read_only);
        let memory = GuestMemory::allocate(layout).ok();
        memory.filter(|memory| memory.layout().ram() == size).ok_or_else(|| {
            let why = format!("is {size:#x}, must be whole pages that this host can allocate");
            self.damaged("the size of RAM", 24, why)
        })
    }

    fn memory(&mut self, memory: &mut GuestMemory) -> Result<(), SnapshotError> {
        let mut unpacker = zstd::bulk::Decompressor::new().map_err(|e| self.unreadable(e))?;
        let mut packed = vec![0; CHUNK];
        let mut all = TraceHash::default();
        let mut count = 0;
        let mut first_free = 0;
        loop {
            let start = self.offset;
            let (index, size, hash) = self.entry()?;
            if index == END {
                if (size, hash) != (count, all.value()) {
                    let why = format!(
                        "{count} chunks came before it with hash {:016x}, must be {size} with \
                         {hash:016x}",
                        all.value()
                    );
                    return Err(self.damaged("the end", start, why));
                }
                return Ok(());
            }
            let at = index as usize * CHUNK;
            if index < first_free || at >= memory.ram.len() || size as usize > CHUNK {
                let why = format!(
                    "chunk {index:#x} of {size:#x} bytes, must be from {first_free:#x} to {:#x} \
                     and at most {CHUNK:#x} bytes",
                    memory.ram.len().div_ceil(CHUNK)
                );
                return Err(self.damaged("a chunk of RAM", start, why));
            }
            let packed = &mut packed[..size as usize];
            self.fill(packed, "a chunk of RAM")?;
            let found = checksum(packed);
            if found != hash {
                return Err(self.damaged("a chunk of RAM", start, hash_mismatch(found, hash)));
            }
            let end = (at + CHUNK).min(memory.ram.len());
            unpack(&mut unpacker, packed, &mut memory.ram[at..end])
                .map_err(|why| self.damaged("a chunk of RAM", start, why))?;
            all.word(hash);
            count += 1;
            first_free = index + 1;
        }
    }

    fn end_of_file(&mut self) -> Result<(), SnapshotError> {
        let offset = self.offset;
        let count = self.input.by_ref().take(1).read_to_end(&mut Vec::new());
        match count.map_err(|source| self.unreadable(source))? {
            0 => Ok(()),
            _ => {
                let why = "bytes follow it, must be the last of the file".into();
                Err(self.damaged("the end", offset, why))
            }
        }
    }

    fn entry(&mut self) -> Result<(u32, u32, u64), SnapshotError> {
        let mut index = [0; 4];
        let mut size = [0; 4];
        let mut hash = [0; 8];
        self.fill(&mut index, "the list of chunks")?;
        self.fill(&mut size, "the list of chunks")?;
        self.fill(&mut hash, "the list of chunks")?;
        Ok((u32::from_le_bytes(index), u32::from_le_bytes(size), u64::from_le_bytes(hash)))
    }

    fn fill(&mut self, bytes: &mut [u8], what: &'static str) -> Result<(), SnapshotError> {
        self.input.read_exact(bytes).map_err(|source| match source.kind() {
            std::io::ErrorKind::UnexpectedEof => self.truncated(what, self.offset),
            _ => self.unreadable(source),
        })?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn unreadable(&self, source: std::io::Error) -> SnapshotError {
        SnapshotError::Input { file: self.file.into(), offset: self.offset, source }
    }

    fn truncated(&self, what: &'static str, offset: u64) -> SnapshotError {
        SnapshotError::Truncated { file: self.file.into(), what, offset }
    }

    fn damaged(&self, what: &'static str, offset: u64, why: String) -> SnapshotError {
        SnapshotError::Damaged { file: self.file.into(), what, offset, why }
    }
}

fn hash_mismatch(found: u64, expected: u64) -> String {
    format!("its hash is {found:016x}, must be {expected:016x}")
}

/// Fills `into` from a chunk: as it is where the sizes are the same, else unpacked.
fn unpack(
    unpacker: &mut zstd::bulk::Decompressor,
    packed: &[u8],
    into: &mut [u8],
) -> Result<(), String> {
    if packed.len() == into.len() {
        into.copy_from_slice(packed);
        return Ok(());
    }
    let size = unpacker.decompress_to_buffer(packed, into).map_err(|error| error.to_string())?;
    if size == into.len() { Ok(()) } else { Err(format!("unpacks to {size:#x} bytes")) }
}

//! Reading a trace.

use super::block::{Decoder, take_number};
use super::{
    BLOCK, END, FIRST_VERSION, LARGEST_BLOCK, LONGEST_NOTE, MAGIC, MOST_NOTES, Note, VERSION,
    checksum,
};
use crate::event::Record;
use crate::hash::TraceHash;
use std::io::Read;

/// Why a trace, or the rest of one, cannot be read. Offsets are those in the file.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file, or what else is read from, gives an error.
    #[error("cannot read the trace at offset {offset:#x}: {source}")]
    Input {
        /// How far everything was read.
        offset: u64,
        /// What went wrong.
        source: std::io::Error,
    },
    /// The magic number is another.
    #[error("not a trace: starts with {found:02x?}, a trace starts with \"AVCTRACE\"")]
    NotATrace {
        /// The first eight bytes.
        found: [u8; 8],
    },
    /// Kinds or fields may have other meanings.
    #[error(
        "trace format version {found}, this program reads versions {FIRST_VERSION} to {VERSION}"
    )]
    Version {
        /// What the head says.
        found: u16,
    },
    /// The file was cut off, or is still being written.
    #[error("trace ends at offset {offset:#x} inside {what}; what came before it is whole")]
    Truncated {
        /// Where it ends.
        offset: u64,
        /// What was being read there.
        what: &'static str,
    },
    /// Bytes are there, but not as a writer leaves them.
    #[error("{what} at offset {offset:#x} is damaged: {why}")]
    Damaged {
        /// Where `what` begins.
        offset: u64,
        /// Which part of the file.
        what: &'static str,
        /// What it is, and what would have been right.
        why: String,
    },
}

/// Yields the records of a trace, then the error that ended it early, if one did.
pub struct Reader<R: Read> {
    input: R,
    offset: u64,
    notes: Vec<Note>,
    block: Decoder,
    block_offset: u64,
    records: u64,
    hash: TraceHash,
    is_over: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the head.
    pub fn new(input: R) -> Result<Self, ReadError> {
        let mut reader = Self {
            input,
            offset: 0,
            notes: Vec::new(),
            block: Decoder::new(Vec::new()),
            block_offset: 0,
            records: 0,
            hash: TraceHash::default(),
            is_over: false,
        };
        let found = reader.array::<8>("the magic number")?;
        if found != *MAGIC {
            return Err(ReadError::NotATrace { found });
        }
        let version = u16::from_le_bytes(reader.array("the version")?);
        if !(FIRST_VERSION..=VERSION).contains(&version) {
            return Err(ReadError::Version { found: version });
        }
        let count = reader.number("the number of notes", MOST_NOTES)?;
        for _ in 0..count {
            let note = (reader.string()?, reader.string()?);
            reader.notes.push(note);
        }
        Ok(reader)
    }

    /// What the head says of the run, in its order.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Records yielded so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The hash of the records yielded so far.
    pub fn hash(&self) -> TraceHash {
        self.hash
    }

    fn bytes(&mut self, length: u64, what: &'static str) -> Result<Vec<u8>, ReadError> {
        let mut bytes = Vec::new();
        let read = self.input.by_ref().take(length).read_to_end(&mut bytes);
        read.map_err(|source| ReadError::Input { offset: self.offset, source })?;
        self.offset += bytes.len() as u64;
        if (bytes.len() as u64) < length {
            return Err(ReadError::Truncated { offset: self.offset, what });
        }
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ReadError> {
        let bytes = self.bytes(N as u64, what)?;
        let mut array = [0; N];
        array.copy_from_slice(&bytes);
        Ok(array)
    }

    fn number(&mut self, what: &'static str, largest: u64) -> Result<u64, ReadError> {
        let offset = self.offset;
        let mut bytes = Vec::new();
        loop {
            bytes.extend(self.array::<1>(what)?);
            if bytes.last().is_some_and(|byte| byte & 0x80 == 0) || bytes.len() == 10 {
                break;
            }
        }
        let number = take_number(&mut bytes.as_slice());
        number.filter(|number| *number <= largest).ok_or_else(|| ReadError::Damaged {
            offset,
            what,
            why: format!("must be at most {largest}"),
        })
    }

    fn string(&mut self) -> Result<String, ReadError> {
        let length = self.number("the length of a note", LONGEST_NOTE)?;
        let offset = self.offset;
        let bytes = self.bytes(length, "a note")?;
        String::from_utf8(bytes).map_err(|_| ReadError::Damaged {
            offset,
            what: "a note",
            why: "must be UTF-8".into(),
        })
    }

    /// Reads the next block; false at the end of the trace.
    fn next_block(&mut self) -> Result<bool, ReadError> {
        let offset = self.offset;
        match self.array::<1>("the end of the trace")?[0] {
            BLOCK => self.read_block(offset).map(|()| true),
            END => self.read_end(offset).map(|()| false),
            other => Err(ReadError::Damaged {
                offset,
                what: "a block",
                why: format!("starts with {other:#04x}, must be 'B' or 'E'"),
            }),
        }
    }

    fn read_block(&mut self, offset: u64) -> Result<(), ReadError> {
        let damaged = |why: String| ReadError::Damaged { offset, what: "a block", why };
        let size = self.number("the size of a block", LARGEST_BLOCK)?;
        let packed_size = self.number("the packed size of a block", LARGEST_BLOCK)?;
        let expected = u64::from_le_bytes(self.array("the hash of a block")?);
        let packed = self.bytes(packed_size, "a block")?;
        let found = checksum(&packed);
        if found != expected {
            return Err(damaged(format!("hash {found:016x}, must be {expected:016x}")));
        }
        let bytes = zstd::bulk::decompress(&packed, size as usize)
            .map_err(|error| damaged(error.to_string()))?;
        if bytes.len() as u64 != size {
            return Err(damaged(format!("unpacks to {} bytes, must be {size}", bytes.len())));
        }
        self.block = Decoder::new(bytes);
        self.block_offset = offset;
        Ok(())
    }

    fn read_end(&mut self, offset: u64) -> Result<(), ReadError> {
        let records = self.number("the number of records", u64::MAX)?;
        let hash = u64::from_le_bytes(self.array("the hash of the records")?);
        let (found, found_hash) = (self.records, self.hash.value());
        if (records, hash) != (found, found_hash) {
            return Err(ReadError::Damaged {
                offset,
                what: "the end of the trace",
                why: format!(
                    "{found} records with hash {found_hash:016x} came before it, must be \
                     {records} with {hash:016x}"
                ),
            });
        }
        Ok(())
    }

    fn step(&mut self) -> Result<Option<Record>, ReadError> {
        while self.block.is_empty() {
            if !self.next_block()? {
                return Ok(None);
            }
        }
        let position = self.block.position();
        let record = self.block.record().ok_or_else(|| ReadError::Damaged {
            offset: self.block_offset,
            what: "a block",
            why: format!("no record at {position:#x} of its unpacked bytes"),
        })?;
        self.records += 1;
        self.hash.record(&record);
        Ok(Some(record))
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let result = self.step().transpose();
        self.is_over = !matches!(result, Some(Ok(_)));
        result
    }
}

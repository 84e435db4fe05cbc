//! Writing a trace.

use super::block::{Encoder, put_number};
use super::{BLOCK, BLOCK_SIZE, END, LONGEST_NOTE, MAGIC, MOST_NOTES, Note, VERSION, checksum};
use crate::event::Record;
use crate::hash::TraceHash;
use std::io::{self, Write};

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How many records.
    pub records: u64,
    /// Of all of them: see [`TraceHash::value`].
    pub hash: u64,
}

/// Writes records block by block; without [`Writer::finish`] the file ends after the last block.
pub struct Writer<W: Write> {
    output: W,
    encoder: Encoder,
    records: u64,
    hash: TraceHash,
}

impl<W: Write> Writer<W> {
    /// Writes the head. Notes that are too long are cut, too many are left out.
    pub fn new(mut output: W, notes: &[Note]) -> io::Result<Self> {
        let mut head = Vec::from(MAGIC);
        head.extend(VERSION.to_le_bytes());
        let notes = &notes[..notes.len().min(MOST_NOTES as usize)];
        put_number(&mut head, notes.len() as u64);
        for (key, value) in notes {
            put_string(&mut head, key);
            put_string(&mut head, value);
        }
        output.write_all(&head)?;
        Ok(Self { output, encoder: Encoder::new(), records: 0, hash: TraceHash::default() })
    }

    /// Adds a record; the block under way is written out once it is full.
    pub fn push(&mut self, record: &Record) -> io::Result<()> {
        self.encoder.record(record);
        self.hash.record(record);
        self.records += 1;
        if self.encoder.bytes.len() >= BLOCK_SIZE { self.flush() } else { Ok(()) }
    }

    /// The hash of what was pushed so far.
    pub fn hash(&self) -> TraceHash {
        self.hash
    }

    /// Closes the block under way, so that a reader sees every record pushed so far.
    pub fn flush(&mut self) -> io::Result<()> {
        if !self.encoder.bytes.is_empty() {
            let packed = zstd::bulk::compress(&self.encoder.bytes, 1)?;
            let mut head = vec![BLOCK];
            put_number(&mut head, self.encoder.bytes.len() as u64);
            put_number(&mut head, packed.len() as u64);
            head.extend(checksum(&packed).to_le_bytes());
            self.output.write_all(&head)?;
            self.output.write_all(&packed)?;
            self.encoder.reset();
        }
        self.output.flush()
    }

    /// Writes what is left and the end.
    pub fn finish(mut self) -> io::Result<(W, Summary)> {
        self.flush()?;
        let summary = Summary { records: self.records, hash: self.hash.value() };
        let mut end = vec![END];
        put_number(&mut end, summary.records);
        end.extend(summary.hash.to_le_bytes());
        self.output.write_all(&end)?;
        self.output.flush()?;
        Ok((self.output, summary))
    }
}

fn put_string(bytes: &mut Vec<u8>, text: &str) {
    let mut length = text.len().min(LONGEST_NOTE as usize);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    put_number(bytes, length as u64);
    bytes.extend_from_slice(&text.as_bytes()[..length]);
}

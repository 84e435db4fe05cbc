//! An initial RAM disk: archives of cpio one behind the other, each as it is or packed, with zeros
//! between them. Microcode comes first, not packed; then the rest.

use super::cpio::{self, Visit};
use crate::archive::{Packing, unpacked};
use std::io::{self, BufRead, BufReader, Read};

/// LZ4's older form, which Ubuntu used: blocks behind their lengths.
const LZ4_LEGACY: [u8; 4] = [0x02, 0x21, 0x4C, 0x18];
const LZ4_BLOCK: usize = 8 << 20;

/// Most bytes that are unpacked.
const UNPACKED_LIMIT: u64 = 2 << 30;

/// What is not unpacked, by its first bytes.
const OTHERS: [(&[u8], &str); 3] =
    [(b"BZh", "bzip2"), (&[0x5D, 0, 0], "lzma"), (&[0x89, b'L', b'Z', b'O'], "lzo")];

/// Gives every file of an image to `visit`. Packed archives are the last.
pub fn members(stream: &mut dyn BufRead, visit: Visit<'_>) -> io::Result<()> {
    archives(stream, visit)?;
    let head = stream.fill_buf()?;
    if head.is_empty() {
        return Ok(());
    }
    if head.starts_with(&LZ4_LEGACY) {
        stream.read_exact(&mut [0; LZ4_LEGACY.len()])?;
        return packed(Lz4 { stream, block: vec![], at: 0 }, visit);
    }
    match Packing::detect(head) {
        Some(packing) => packed(unpacked(packing, stream)?, visit),
        None => Err(not_read(head)),
    }
}

/// Archives up to the end of what was packed. What follows the last one need not be of it.
fn packed(stream: impl Read, visit: Visit<'_>) -> io::Result<()> {
    let mut stream = BufReader::new(stream.take(UNPACKED_LIMIT));
    if archives(&mut stream, visit)? == 0 {
        return Err(not_read(stream.fill_buf()?));
    }
    Ok(())
}

/// Archives that are not packed, and how many there were.
fn archives(stream: &mut dyn BufRead, visit: Visit<'_>) -> io::Result<usize> {
    let mut count = 0;
    loop {
        match pass_zeros(stream) {
            Ok(()) => {}
            Err(_) if count > 0 => return Ok(count),
            Err(error) => return Err(error),
        }
        let head = stream.fill_buf()?;
        if !cpio::MAGICS.iter().any(|magic| head.starts_with(*magic)) {
            return Ok(count);
        }
        cpio::members(stream, visit)?;
        count += 1;
    }
}

fn pass_zeros(stream: &mut dyn BufRead) -> io::Result<()> {
    loop {
        let head = stream.fill_buf()?;
        let zeros = head.iter().take_while(|byte| **byte == 0).count();
        if zeros == 0 {
            return Ok(());
        }
        stream.consume(zeros);
    }
}

fn not_read(head: &[u8]) -> io::Error {
    let packing = OTHERS.iter().find(|(magic, _)| head.starts_with(magic));
    io::Error::other(match packing {
        Some((_, name)) => format!("packed with {name}, which is not read"),
        None => "no archive of cpio".to_owned(),
    })
}

/// Unpacks the blocks of LZ4's older form one by one.
struct Lz4<'s> {
    stream: &'s mut dyn BufRead,
    block: Vec<u8>,
    at: usize,
}

impl Lz4<'_> {
    /// The next block; false at the end.
    fn advance(&mut self) -> io::Result<bool> {
        let mut size = [0; 4];
        if self.stream.fill_buf()?.is_empty() {
            return Ok(false);
        }
        self.stream.read_exact(&mut size)?;
        // Several may have been put together.
        if size == LZ4_LEGACY {
            return Ok(true);
        }
        let size = u32::from_le_bytes(size) as usize;
        if size > 2 * LZ4_BLOCK {
            return Err(io::Error::other("a block of LZ4 is too long"));
        }
        let mut bytes = vec![];
        (&mut *self.stream).take(size as u64).read_to_end(&mut bytes)?;
        self.block = lz4_flex::block::decompress(&bytes, LZ4_BLOCK).map_err(io::Error::other)?;
        self.at = 0;
        Ok(true)
    }
}

impl Read for Lz4<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.block.len() {
            if !self.advance()? {
                return Ok(0);
            }
        }
        let length = buffer.len().min(self.block.len() - self.at);
        buffer[..length].copy_from_slice(&self.block[self.at..self.at + length]);
        self.at += length;
        Ok(length)
    }
}

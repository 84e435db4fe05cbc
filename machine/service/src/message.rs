//! Messages on a stream: two lengths, a header of JSON, bytes.
//!
//! The lengths are 32 bits each, little-endian: of the header, and of the payload behind it.

use std::io::{self, ErrorKind, Read, Write};

/// Bytes of a request's header at most.
pub const LARGEST_HEADER: usize = 1 << 20;
/// Bytes of a reply's header at most.
pub const LARGEST_REPLY: usize = 16 << 20;
/// Bytes of a payload at most.
pub const LARGEST_PAYLOAD: usize = 64 << 20;
/// Memory is asked for as bytes come, so that a length costs nothing.
const PIECE: usize = 64 << 10;

/// A message, either way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// JSON.
    pub header: Vec<u8>,
    /// What requests or replies in it say of it.
    pub payload: Vec<u8>,
}

/// Why there is no message.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// The stream ended within one.
    #[error("the stream ends within a message")]
    Truncated,
    /// A length is beyond its limit; where the next message begins is not known.
    #[error("a {what} of {length} bytes, must be at most {most}")]
    TooLong {
        /// Header or payload.
        what: &'static str,
        /// What it says.
        length: usize,
        /// The limit.
        most: usize,
    },
    /// The stream cannot be read.
    #[error(transparent)]
    Stream(#[from] io::Error),
}

impl Message {
    /// A header without a payload.
    pub fn of(header: &serde_json::Value) -> Self {
        Self { header: header.to_string().into_bytes(), payload: Vec::new() }
    }

    /// The next request on a stream; `None` where the stream ends before it.
    pub fn read(input: &mut impl Read) -> Result<Option<Self>, MessageError> {
        Self::read_within(input, LARGEST_HEADER)
    }

    /// The next reply on a stream.
    pub fn read_reply(input: &mut impl Read) -> Result<Option<Self>, MessageError> {
        Self::read_within(input, LARGEST_REPLY)
    }

    fn read_within(input: &mut impl Read, most: usize) -> Result<Option<Self>, MessageError> {
        let mut lengths = [0; 8];
        match fill(input, &mut lengths)? {
            0 => return Ok(None),
            8 => {}
            _ => return Err(MessageError::Truncated),
        }
        let [a, b, c, d, rest @ ..] = lengths;
        let header = length("header", [a, b, c, d], most)?;
        let payload = length("payload", rest, LARGEST_PAYLOAD)?;
        Ok(Some(Self { header: take(input, header)?, payload: take(input, payload)? }))
    }

    /// Puts it on a stream.
    pub fn write(&self, output: &mut impl Write) -> io::Result<()> {
        let word = |length: usize| {
            u32::try_from(length).map_err(|_| io::Error::from(ErrorKind::InvalidInput))
        };
        output.write_all(&word(self.header.len())?.to_le_bytes())?;
        output.write_all(&word(self.payload.len())?.to_le_bytes())?;
        output.write_all(&self.header)?;
        output.write_all(&self.payload)?;
        output.flush()
    }
}

fn length(what: &'static str, bytes: [u8; 4], most: usize) -> Result<usize, MessageError> {
    let length = u32::from_le_bytes(bytes) as usize;
    if length > most {
        return Err(MessageError::TooLong { what, length, most });
    }
    Ok(length)
}

/// Reads until the buffer is full or the stream ends; how many bytes.
fn fill(input: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match input.read(&mut into[done..]) {
            Ok(0) => break,
            Ok(length) => done += length,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

fn take(input: &mut impl Read, length: usize) -> Result<Vec<u8>, MessageError> {
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let begin = bytes.len();
        bytes.resize(length.min(begin + PIECE), 0);
        let wanted = bytes.len() - begin;
        if fill(input, &mut bytes[begin..])? != wanted {
            return Err(MessageError::Truncated);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written_and_a_part_of_it_is_not() {
        let message = Message { header: b"{}".to_vec(), payload: vec![7; PIECE + 3] };
        let mut bytes = Vec::new();
        message.write(&mut bytes).expect("a vector takes all");
        let mut stream = [bytes.clone(), bytes.clone()].concat();
        let mut rest = stream.as_slice();
        for _ in 0..2 {
            assert_eq!(Message::read(&mut rest).expect("whole"), Some(message.clone()));
        }
        assert_eq!(Message::read(&mut rest).expect("the end"), None);
        for length in [1, 7, 8, 9, 11, bytes.len() - 1] {
            let read = Message::read(&mut &bytes[..length]);
            assert!(matches!(read, Err(MessageError::Truncated)), "{length}");
        }
        stream[3] = 0xFF;
        let read = Message::read(&mut stream.as_slice());
        assert!(matches!(read, Err(MessageError::TooLong { what: "header", .. })));
        stream[..8].copy_from_slice(&[2, 0, 0, 0, 1, 0, 0, 4]);
        let read = Message::read(&mut stream.as_slice());
        assert!(matches!(read, Err(MessageError::TooLong { what: "payload", .. })));
    }
}

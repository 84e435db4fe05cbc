//! Records in a block.

use crate::event::{Event, MOST_FIELDS, Record};
use arch::identity::CpuIndex;
use arch::time::Picoseconds;

/// Kinds are below this.
const KINDS: usize = 64;

/// What records refer back to.
struct Last {
    at: u64,
    cpu: u16,
    addresses: [[u64; MOST_FIELDS]; KINDS],
}

impl Last {
    const fn new() -> Self {
        Self { at: 0, cpu: 0, addresses: [[0; MOST_FIELDS]; KINDS] }
    }
}

/// The first byte of a record is its kind, with this bit if the processor is not the last one's.
const OTHER_CPU: u8 = 0x80;

pub(super) fn put_number(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Takes a number off the front; `None` at the end of the bytes or beyond 64 bits.
pub(super) fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7F);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Small differences of either sign become small numbers.
const fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ ((difference as i64 >> 63) as u64)
}

const fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

pub(super) struct Encoder {
    pub bytes: Vec<u8>,
    last: Last,
}

impl Encoder {
    pub fn new() -> Self {
        Self { bytes: Vec::new(), last: Last::new() }
    }

    pub fn record(&mut self, record: &Record) {
        let kind = record.event.kind();
        let is_other = record.cpu.0 != self.last.cpu;
        self.bytes.push(if is_other { kind | OTHER_CPU } else { kind });
        if is_other {
            put_number(&mut self.bytes, record.cpu.0.into());
            self.last.cpu = record.cpu.0;
        }
        put_number(&mut self.bytes, zigzag(record.at.0.wrapping_sub(self.last.at)));
        self.last.at = record.at.0;
        let addresses = &mut self.last.addresses[usize::from(kind)];
        let mut index = 0;
        let bytes = &mut self.bytes;
        record.event.fields(|_, field| {
            let word = field.word();
            if field.is_address() {
                put_number(bytes, zigzag(word.wrapping_sub(addresses[index])));
                addresses[index] = word;
            } else {
                put_number(bytes, word);
            }
            index += 1;
        });
    }

    /// Forgets everything, for the next block.
    pub fn reset(&mut self) {
        self.bytes.clear();
        self.last = Last::new();
    }
}

pub(super) struct Decoder {
    bytes: Vec<u8>,
    position: usize,
    last: Last,
}

impl Decoder {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, position: 0, last: Last::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.position >= self.bytes.len()
    }

    pub fn position(&self) -> usize {
        self.position
    }

    /// The next record; `None` if the bytes are not one.
    pub fn record(&mut self) -> Option<Record> {
        let mut rest = self.bytes.get(self.position..)?;
        let (first, tail) = rest.split_first()?;
        rest = tail;
        if first & OTHER_CPU != 0 {
            self.last.cpu = take_number(&mut rest)?.try_into().ok()?;
        }
        let kind = first & !OTHER_CPU;
        let at = self.last.at.wrapping_add(unzigzag(take_number(&mut rest)?));
        self.last.at = at;
        let addresses = self.last.addresses.get_mut(usize::from(kind))?;
        let mut index = 0;
        let event = Event::from_words(kind, |is_address| {
            let number = take_number(&mut rest).ok_or(())?;
            let word = if is_address {
                addresses[index] = addresses[index].wrapping_add(unzigzag(number));
                addresses[index]
            } else {
                number
            };
            index += 1;
            Ok::<u64, ()>(word)
        });
        let event = event.ok()??;
        self.position = self.bytes.len() - rest.len();
        Some(Record { at: Picoseconds(at), cpu: CpuIndex(self.last.cpu), event })
    }
}

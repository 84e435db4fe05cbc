//! Where the fields of a sample lie, worked out once per event instead of once per sample.

use super::attribute::{Attribute, read, sample};
use super::kind::HEADER;
use crate::kvm::Decoder;

/// Offsets from a record's first byte; zero stands for a field that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SampleLayout {
    pub thread: usize,
    pub time: usize,
    pub cpu: usize,
    pub id: usize,
    /// Where the fields of fixed size end.
    pub fixed_end: usize,
    /// The raw record's length stands at `fixed_end`: nothing of variable size is before it.
    pub is_raw_fixed: bool,
    pub sample_type: u64,
    read_format: u64,
}

impl SampleLayout {
    pub fn new(attribute: &Attribute) -> Self {
        let kind = attribute.sample_type;
        let mut layout = Self {
            sample_type: kind,
            read_format: attribute.read_format,
            is_raw_fixed: kind & (sample::READ | sample::CALLCHAIN) == 0 && kind & sample::RAW != 0,
            ..Self::default()
        };
        let mut at = HEADER;
        let order = [
            sample::IDENTIFIER,
            sample::IP,
            sample::TID,
            sample::TIME,
            sample::ADDR,
            sample::ID,
            sample::STREAM_ID,
            sample::CPU,
            sample::PERIOD,
        ];
        for field in order.into_iter().filter(|field| kind & field != 0) {
            match field {
                sample::IDENTIFIER => layout.id = at,
                sample::TID => layout.thread = at,
                sample::TIME => layout.time = at,
                sample::ID if layout.id == 0 => layout.id = at,
                sample::CPU => layout.cpu = at,
                _ => {}
            }
            at += 8;
        }
        layout.fixed_end = at;
        layout
    }

    /// The raw part of a sample whose length is only known by walking what precedes it.
    pub fn raw_after_variable<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let mut at = self.fixed_end;
        let word = |at: usize| -> Option<u64> {
            Some(u64::from_le_bytes(record.get(at..at.checked_add(8)?)?.try_into().ok()?))
        };
        if self.sample_type & sample::READ != 0 {
            let has = |bit: u64| usize::from(self.read_format & bit != 0);
            let times = has(read::TIME_ENABLED) + has(read::TIME_RUNNING);
            let per_value = 1 + has(read::ID) + has(read::LOST);
            let words = if self.read_format & read::GROUP != 0 {
                let values = usize::try_from(word(at)?).ok()?;
                values.checked_mul(per_value)?.checked_add(1 + times)?
            } else {
                per_value + times
            };
            at = at.checked_add(words.checked_mul(8)?)?;
        }
        if self.sample_type & sample::CALLCHAIN != 0 {
            let frames = usize::try_from(word(at)?).ok()?;
            at = at.checked_add(frames.checked_mul(8)?)?.checked_add(8)?;
        }
        raw_at(record, at)
    }

    /// Time and CPU from the fields at the end of a record that is not a sample.
    pub fn trailer(&self, record: &[u8]) -> Option<(u64, u32)> {
        let order = [
            sample::TID,
            sample::TIME,
            sample::ID,
            sample::STREAM_ID,
            sample::CPU,
            sample::IDENTIFIER,
        ];
        let present = || order.into_iter().filter(|field| self.sample_type & field != 0);
        let start = record.len().checked_sub(present().count() * 8)?;
        let place = |wanted: u64| {
            let index = present().position(|field| field == wanted)?;
            let bytes = record.get(start + index * 8..start + index * 8 + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        Some((place(sample::TIME)?, place(sample::CPU).unwrap_or(0) as u32))
    }
}

/// A length and that many bytes, at an offset of a record.
#[inline]
pub fn raw_at(record: &[u8], at: usize) -> Option<&[u8]> {
    let start = at.checked_add(4)?;
    let length = u32::from_le_bytes(record.get(at..start)?.try_into().ok()?) as usize;
    record.get(start..start.checked_add(length)?)
}

/// One recorded event, ready to be decoded.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub layout: SampleLayout,
    /// `None` for an event that is read past.
    pub decoder: Option<Decoder>,
}

//! `perf_event_attr`: what was recorded and which fields each sample has.

use crate::Error;
use crate::tracing_data::Cursor;

/// Kind of event: a static tracepoint.
pub const TYPE_TRACEPOINT: u32 = 2;

/// Bits of `sample_type`, in the order in which their fields stand in a sample.
pub mod sample {
    pub const IDENTIFIER: u64 = 1 << 16;
    pub const IP: u64 = 1 << 0;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const ID: u64 = 1 << 6;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const RAW: u64 = 1 << 10;
}

/// Bits of `read_format`.
pub mod read {
    pub const TIME_ENABLED: u64 = 1 << 0;
    pub const TIME_RUNNING: u64 = 1 << 1;
    pub const ID: u64 = 1 << 2;
    pub const GROUP: u64 = 1 << 3;
    pub const LOST: u64 = 1 << 4;
}

const SAMPLE_ID_ALL: u64 = 1 << 18;
/// Size of the structure's first published version.
const SMALLEST: u32 = 64;
const LARGEST: u32 = 4096;

/// The fields of `perf_event_attr` that decide how records are read.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Attribute {
    /// The event's type as `perf_event_attr` numbers it: 2 is a tracepoint.
    pub kind: u32,
    /// Of a tracepoint, its number.
    pub config: u64,
    /// Which fields a sample has.
    pub sample_type: u64,
    /// Which fields a counter's value in a sample has.
    pub read_format: u64,
    /// Records other than samples end with the fields that identify them.
    pub has_sample_id: bool,
    /// Identifiers under which samples of this event arrive.
    pub ids: Vec<u64>,
    /// From the event description, where there is one.
    pub name: Option<String>,
}

impl Attribute {
    /// Reads the structure, whose own size field says how long it is; returns that size too.
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), Error> {
        let mut cursor = Cursor::new(bytes, "event attribute");
        let kind = cursor.u32()?;
        let size = match cursor.u32()? {
            0 => SMALLEST,
            size @ SMALLEST..=LARGEST => size,
            size => return Err(cursor.error(format!("its size is {size}"))),
        };
        let config = cursor.u64()?;
        cursor.u64()?;
        let sample_type = cursor.u64()?;
        let read_format = cursor.u64()?;
        let flags = cursor.u64()?;
        let attribute = Self {
            kind,
            config,
            sample_type,
            read_format,
            has_sample_id: flags & SAMPLE_ID_ALL != 0,
            ids: Vec::new(),
            name: None,
        };
        Ok((attribute, size as usize))
    }
}

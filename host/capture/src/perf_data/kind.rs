//! Types of records, and the header that each begins with. [PERF "perf_event_type"]

/// Length of a record's header: type, misc, size.
pub const HEADER: usize = 8;

pub const LOST: u32 = 2;
pub const COMM: u32 = 3;
pub const SAMPLE: u32 = 9;
pub const LOST_SAMPLES: u32 = 13;
/// The kernel's own types end here.
pub const LAST_OF_KERNEL: u32 = 21;
pub const FIRST_OF_PERF: u32 = 64;
pub const HEADER_ATTR: u32 = 64;
pub const TRACING_DATA: u32 = 66;
pub const FINISHED_ROUND: u32 = 68;
pub const AUXTRACE: u32 = 71;
pub const HEADER_FEATURE: u32 = 80;
pub const COMPRESSED: u32 = 81;
pub const COMPRESSED2: u32 = 83;
pub const LAST_OF_PERF: u32 = 90;

/// Type, misc and size of the record at an offset, if its header is there.
#[inline]
pub fn header_at(bytes: &[u8], at: usize) -> Option<(u32, usize)> {
    let header = u64::from_le_bytes(bytes.get(at..at.checked_add(HEADER)?)?.try_into().ok()?);
    Some((header as u32, (header >> 48) as usize))
}

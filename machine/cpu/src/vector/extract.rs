//! Lanes to and from general registers, and SSE4a's bit fields.

use super::{bytes, dwords, from_bytes, from_dwords, from_qwords, from_words, qwords, words};

/// PEXTRB.
pub fn pextrb(a: u128, lane: u8) -> u8 {
    bytes(a)[usize::from(lane & 15)]
}

/// PEXTRW.
pub fn pextrw(a: u128, lane: u8) -> u16 {
    words(a)[usize::from(lane & 7)]
}

/// PEXTRD.
pub fn pextrd(a: u128, lane: u8) -> u32 {
    dwords(a)[usize::from(lane & 3)]
}

/// PEXTRQ.
pub fn pextrq(a: u128, lane: u8) -> u64 {
    qwords(a)[usize::from(lane & 1)]
}

/// PINSRB.
pub fn pinsrb(a: u128, value: u8, lane: u8) -> u128 {
    let mut lanes = bytes(a);
    lanes[usize::from(lane & 15)] = value;
    from_bytes(lanes)
}

/// PINSRW.
pub fn pinsrw(a: u128, value: u16, lane: u8) -> u128 {
    let mut lanes = words(a);
    lanes[usize::from(lane & 7)] = value;
    from_words(lanes)
}

/// PINSRD.
pub fn pinsrd(a: u128, value: u32, lane: u8) -> u128 {
    let mut lanes = dwords(a);
    lanes[usize::from(lane & 3)] = value;
    from_dwords(lanes)
}

/// PINSRQ.
pub fn pinsrq(a: u128, value: u64, lane: u8) -> u128 {
    let mut lanes = qwords(a);
    lanes[usize::from(lane & 1)] = value;
    from_qwords(lanes)
}

/// A field of `length` bits (zero means 64).
fn field_mask(length: u8) -> u64 {
    match length & 63 {
        0 => u64::MAX,
        length => (1 << length) - 1,
    }
}

/// EXTRQ [APM4 "EXTRQ"]: a bit field of the low quadword; the upper one is undefined, and cleared
/// by processors.
pub fn extrq(a: u128, length: u8, index: u8) -> u128 {
    u128::from(a as u64 >> (index & 63) & field_mask(length))
}

/// INSERTQ [APM4 "INSERTQ"]: the low bits of the second operand into a field of the first. The
/// upper quadword is as for EXTRQ.
pub fn insertq(a: u128, b: u128, length: u8, index: u8) -> u128 {
    let (mask, index) = (field_mask(length), index & 63);
    u128::from(a as u64 & !(mask << index) | (b as u64 & mask) << index)
}

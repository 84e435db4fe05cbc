//! What MMX and SSE instructions compute on a register's lanes: pure functions of `u128` values,
//! named by their mnemonics.
//!
//! MMX instructions whose lanes do not interact use the same functions on zero-extended `u64`
//! operands; those that do interact have a `u64` form in [`mmx`]. Operands are in Intel order: the
//! first is the destination. Specified in [SDM2 "Instruction Set Reference"] under each mnemonic.

pub mod aes;
pub mod carryless;
pub mod crc;
pub mod extract;
pub mod integer;
pub mod mmx;
pub mod multiply;
pub mod packed_float;
mod parallel;
pub mod sha;
pub mod shift;
pub mod shuffle;
pub mod string;
pub mod variable;

#[cfg(test)]
mod tests;

use std::array::from_fn;

/// Sixteen lanes, the lowest first.
#[inline]
pub fn bytes(value: u128) -> [u8; 16] {
    value.to_le_bytes()
}

/// Eight lanes, the lowest first.
#[inline]
pub fn words(value: u128) -> [u16; 8] {
    from_fn(|lane| (value >> (16 * lane)) as u16)
}

/// Four lanes, the lowest first.
#[inline]
pub fn dwords(value: u128) -> [u32; 4] {
    from_fn(|lane| (value >> (32 * lane)) as u32)
}

/// Two lanes, the lowest first.
#[inline]
pub fn qwords(value: u128) -> [u64; 2] {
    [value as u64, (value >> 64) as u64]
}

/// The register of sixteen lanes.
#[inline]
pub fn from_bytes(lanes: [u8; 16]) -> u128 {
    u128::from_le_bytes(lanes)
}

/// The register of eight lanes.
#[inline]
pub fn from_words(lanes: [u16; 8]) -> u128 {
    lanes.iter().rev().fold(0, |value, &lane| value << 16 | u128::from(lane))
}

/// The register of four lanes.
#[inline]
pub fn from_dwords(lanes: [u32; 4]) -> u128 {
    lanes.iter().rev().fold(0, |value, &lane| value << 32 | u128::from(lane))
}

/// The register of two lanes.
#[inline]
pub fn from_qwords(lanes: [u64; 2]) -> u128 {
    u128::from(lanes[0]) | u128::from(lanes[1]) << 64
}

/// Defines functions that combine the lanes of two operands one by one. The lane type says how a
/// lane is read; the result is truncated to the lane.
macro_rules! lanewise {
    ($($name:ident: $split:ident, $join:ident, $lane:ty, $result:ty, |$a:ident, $b:ident| $value:expr;)*) => {
        $(
            /// Each lane of `a` with the same lane of `b`.
            #[inline]
            pub fn $name(a: u128, b: u128) -> u128 {
                let (x, y) = ($split(a), $split(b));
                $join(from_fn(|lane| {
                    let ($a, $b) = (x[lane] as $lane, y[lane] as $lane);
                    ($value) as $result
                }))
            }
        )*
    };
}
pub(crate) use lanewise;

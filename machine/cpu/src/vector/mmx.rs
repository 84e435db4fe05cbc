//! MMX forms of the instructions whose result depends on the register being 64 bits wide.

use super::shuffle::{self, to_signed_byte, to_signed_word, to_unsigned_byte};
use super::{integer, multiply};
use std::array::from_fn;

fn words(value: u64) -> [u16; 4] {
    from_fn(|lane| (value >> (16 * lane)) as u16)
}

fn from_words(lanes: [u16; 4]) -> u64 {
    lanes.iter().rev().fold(0, |value, &lane| value << 16 | u64::from(lane))
}

fn dwords(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

fn packed_words(a: u64, b: u64, narrow: fn(i16) -> u8) -> u64 {
    let (x, y) = (words(a), words(b));
    u64::from_le_bytes(from_fn(|lane| narrow(if lane < 4 { x[lane] } else { y[lane - 4] } as i16)))
}

/// PACKSSWB.
pub fn packsswb(a: u64, b: u64) -> u64 {
    packed_words(a, b, to_signed_byte)
}

/// PACKUSWB.
pub fn packuswb(a: u64, b: u64) -> u64 {
    packed_words(a, b, to_unsigned_byte)
}

/// PACKSSDW.
pub fn packssdw(a: u64, b: u64) -> u64 {
    let (x, y) = (dwords(a), dwords(b));
    from_words([x[0], x[1], y[0], y[1]].map(|dword| to_signed_word(dword as i32)))
}

/// The low half of the wide interleaving is the whole of the narrow operands' low half.
macro_rules! low_interleave {
    ($($name:ident),*) => {
        $(
            /// The low halves of both, their lanes in turn.
            pub fn $name(a: u64, b: u64) -> u64 {
                shuffle::$name(a.into(), b.into()) as u64
            }
        )*
    };
}

low_interleave!(punpcklbw, punpcklwd, punpckldq);

/// PUNPCKHBW.
pub fn punpckhbw(a: u64, b: u64) -> u64 {
    (shuffle::punpcklbw(a.into(), b.into()) >> 64) as u64
}

/// PUNPCKHWD.
pub fn punpckhwd(a: u64, b: u64) -> u64 {
    (shuffle::punpcklwd(a.into(), b.into()) >> 64) as u64
}

/// PUNPCKHDQ.
pub fn punpckhdq(a: u64, b: u64) -> u64 {
    (shuffle::punpckldq(a.into(), b.into()) >> 64) as u64
}

/// PSHUFB with three index bits.
pub fn pshufb(a: u64, control: u64) -> u64 {
    const INDEX_BITS: u128 = 0x8787_8787_8787_8787;
    shuffle::pshufb(a.into(), u128::from(control) & INDEX_BITS) as u64
}

/// PSHUFW.
pub fn pshufw(b: u64, immediate: u8) -> u64 {
    shuffle::pshuflw(b.into(), immediate) as u64
}

/// PALIGNR: both, shifted right by bytes; all gone from 16 on.
pub fn palignr(a: u64, b: u64, immediate: u8) -> u64 {
    let both = u128::from(a) << 64 | u128::from(b);
    both.checked_shr(8 * u32::from(immediate)).unwrap_or(0) as u64
}

/// The results of the wide form's two operands are in the low quarters of its halves.
macro_rules! horizontal {
    ($($name:ident),*) => {
        $(
            /// Sums or differences of neighbours, `a`'s in the low half and `b`'s in the high one.
            pub fn $name(a: u64, b: u64) -> u64 {
                integer::$name(u128::from(b) << 64 | u128::from(a), 0) as u64
            }
        )*
    };
}

horizontal!(phaddw, phaddd, phaddsw, phsubw, phsubd, phsubsw);

/// PSADBW: the sum of absolute differences, in the lowest word.
pub fn psadbw(a: u64, b: u64) -> u64 {
    multiply::psadbw(a.into(), b.into()) as u64
}

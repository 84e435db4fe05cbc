//! Moving lanes: shuffles, interleaving, packing, blending, alignment and widening.

use super::{bytes, dwords, from_bytes, from_dwords, from_qwords, from_words, qwords, words};
use std::array::from_fn;

/// PSHUFB: a control byte with its top bit set clears the lane.
#[inline]
pub fn pshufb(a: u128, control: u128) -> u128 {
    let source = bytes(a);
    from_bytes(bytes(control).map(|index| match index & 0x80 {
        0 => source[usize::from(index & 15)],
        _ => 0,
    }))
}

/// The two-bit field of an immediate that selects the source of a lane.
fn selector(immediate: u8, lane: usize) -> usize {
    usize::from(immediate >> (2 * lane) & 3)
}

/// PSHUFD.
pub fn pshufd(b: u128, immediate: u8) -> u128 {
    let source = dwords(b);
    from_dwords(from_fn(|lane| source[selector(immediate, lane)]))
}

/// PSHUFLW: the high half stays.
pub fn pshuflw(b: u128, immediate: u8) -> u128 {
    let source = words(b);
    from_words(from_fn(|lane| match lane {
        0..4 => source[selector(immediate, lane)],
        _ => source[lane],
    }))
}

/// PSHUFHW: the low half stays.
pub fn pshufhw(b: u128, immediate: u8) -> u128 {
    let source = words(b);
    from_words(from_fn(|lane| match lane {
        0..4 => source[lane],
        _ => source[4 + selector(immediate, lane - 4)],
    }))
}

/// SHUFPS: the low half from `a`, the high one from `b`.
pub fn shufps(a: u128, b: u128, immediate: u8) -> u128 {
    let (x, y) = (dwords(a), dwords(b));
    let select = |lane| selector(immediate, lane);
    from_dwords([x[select(0)], x[select(1)], y[select(2)], y[select(3)]])
}

/// SHUFPD: the low lane from `a`, the high one from `b`.
pub fn shufpd(a: u128, b: u128, immediate: u8) -> u128 {
    let (x, y) = (qwords(a), qwords(b));
    from_qwords([x[usize::from(immediate & 1)], y[usize::from(immediate >> 1 & 1)]])
}

/// PALIGNR: the concatenation of both, shifted right by bytes.
pub fn palignr(a: u128, b: u128, immediate: u8) -> u128 {
    let bits = 8 * u32::from(immediate);
    match bits {
        0 => b,
        1..128 => b >> bits | a << (128 - bits),
        _ => a.checked_shr(bits - 128).unwrap_or(0),
    }
}

/// Defines interleaving of the low or high halves of two operands.
macro_rules! interleave {
    ($($name:ident: $split:ident, $join:ident, $first:expr;)*) => {
        $(
            /// One half of both, their lanes in turn.
            #[inline]
            pub fn $name(a: u128, b: u128) -> u128 {
                let (x, y) = ($split(a), $split(b));
                $join(from_fn(|lane| {
                    let source = if lane % 2 == 0 { &x } else { &y };
                    source[$first + lane / 2]
                }))
            }
        )*
    };
}

interleave! {
    punpcklbw: bytes, from_bytes, 0;
    punpcklwd: words, from_words, 0;
    punpckldq: dwords, from_dwords, 0;
    punpcklqdq: qwords, from_qwords, 0;
    punpckhbw: bytes, from_bytes, 8;
    punpckhwd: words, from_words, 4;
    punpckhdq: dwords, from_dwords, 2;
    punpckhqdq: qwords, from_qwords, 1;
}

/// Narrows the words of both operands to bytes.
fn packed_words(a: u128, b: u128, narrow: fn(i16) -> u8) -> u128 {
    let (x, y) = (words(a), words(b));
    from_bytes(from_fn(|lane| {
        let word = if lane < 8 { x[lane] } else { y[lane - 8] };
        narrow(word as i16)
    }))
}

fn packed_dwords(a: u128, b: u128, narrow: fn(i32) -> u16) -> u128 {
    let (x, y) = (dwords(a), dwords(b));
    from_words(from_fn(|lane| {
        let dword = if lane < 4 { x[lane] } else { y[lane - 4] };
        narrow(dword as i32)
    }))
}

pub(super) fn to_signed_byte(word: i16) -> u8 {
    word.clamp(i8::MIN.into(), i8::MAX.into()) as u8
}

pub(super) fn to_unsigned_byte(word: i16) -> u8 {
    word.clamp(0, u8::MAX.into()) as u8
}

pub(super) fn to_signed_word(dword: i32) -> u16 {
    dword.clamp(i16::MIN.into(), i16::MAX.into()) as u16
}

/// PACKSSWB.
pub fn packsswb(a: u128, b: u128) -> u128 {
    packed_words(a, b, to_signed_byte)
}

/// PACKUSWB.
pub fn packuswb(a: u128, b: u128) -> u128 {
    packed_words(a, b, to_unsigned_byte)
}

/// PACKSSDW.
pub fn packssdw(a: u128, b: u128) -> u128 {
    packed_dwords(a, b, to_signed_word)
}

/// PACKUSDW.
pub fn packusdw(a: u128, b: u128) -> u128 {
    packed_dwords(a, b, |dword| dword.clamp(0, u16::MAX.into()) as u16)
}

/// Lanes of the second operand where the immediate's bit is set.
macro_rules! blends {
    ($($name:ident: $split:ident, $join:ident;)*) => {
        $(
            /// Lanes of `b` where the immediate's bit is set, else of `a`.
            pub fn $name(a: u128, b: u128, immediate: u8) -> u128 {
                let (x, y) = ($split(a), $split(b));
                $join(from_fn(|lane| {
                    if immediate >> lane & 1 == 0 { x[lane] } else { y[lane] }
                }))
            }
        )*
    };
}

blends! {
    pblendw: words, from_words;
    blendps: dwords, from_dwords;
    blendpd: qwords, from_qwords;
}

/// Lanes of the second operand where the mask's (XMM0's) sign is set.
pub fn pblendvb(a: u128, b: u128, mask: u128) -> u128 {
    let (x, y, mask) = (bytes(a), bytes(b), bytes(mask));
    from_bytes(from_fn(|lane| if mask[lane] >> 7 == 0 { x[lane] } else { y[lane] }))
}

/// BLENDVPS: by the sign bits of the mask's lanes.
pub fn blendvps(a: u128, b: u128, mask: u128) -> u128 {
    blendps(a, b, super::integer::movmskps(mask) as u8)
}

/// BLENDVPD: by the sign bits of the mask's lanes.
pub fn blendvpd(a: u128, b: u128, mask: u128) -> u128 {
    blendpd(a, b, super::integer::movmskpd(mask) as u8)
}

/// Widens the low lanes of a source.
macro_rules! widenings {
    ($($name:ident: $split:ident, $join:ident, $narrow:ty, $wide:ty;)*) => {
        $(
            /// The low lanes of `b`, sign- or zero-extended.
            #[inline]
            pub fn $name(_: u128, b: u128) -> u128 {
                let source = $split(b);
                $join(from_fn(|lane| source[lane] as $narrow as $wide))
            }
        )*
    };
}

widenings! {
    pmovsxbw: bytes, from_words, i8, u16;
    pmovsxbd: bytes, from_dwords, i8, u32;
    pmovsxbq: bytes, from_qwords, i8, u64;
    pmovsxwd: words, from_dwords, i16, u32;
    pmovsxwq: words, from_qwords, i16, u64;
    pmovsxdq: dwords, from_qwords, i32, u64;
    pmovzxbw: bytes, from_words, u8, u16;
    pmovzxbd: bytes, from_dwords, u8, u32;
    pmovzxbq: bytes, from_qwords, u8, u64;
    pmovzxwd: words, from_dwords, u16, u32;
    pmovzxwq: words, from_qwords, u16, u64;
    pmovzxdq: dwords, from_qwords, u32, u64;
}

/// MOVDDUP: the low qword twice.
pub fn movddup(_: u128, b: u128) -> u128 {
    from_qwords([b as u64; 2])
}

/// MOVSLDUP: even dwords twice.
pub fn movsldup(_: u128, b: u128) -> u128 {
    pshufd(b, 0b10_10_00_00)
}

/// MOVSHDUP: odd dwords twice.
pub fn movshdup(_: u128, b: u128) -> u128 {
    pshufd(b, 0b11_11_01_01)
}

/// INSERTPS with the selected source lane at hand: lane to write, then lanes to clear.
pub fn insertps(a: u128, lane_value: u32, immediate: u8) -> u128 {
    let mut lanes = dwords(a);
    lanes[selector(immediate, 2)] = lane_value;
    from_dwords(from_fn(|lane| if immediate >> lane & 1 == 0 { lanes[lane] } else { 0 }))
}

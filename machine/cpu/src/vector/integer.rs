//! Addition, subtraction, averages, minima, comparisons and sign changes, lane by lane.

use super::{
    bytes, dwords, from_bytes, from_dwords, from_qwords, from_words, lanewise, qwords, words,
};
use std::array::from_fn;

lanewise! {
    paddb: bytes, from_bytes, u8, u8, |a, b| a.wrapping_add(b);
    paddw: words, from_words, u16, u16, |a, b| a.wrapping_add(b);
    paddd: dwords, from_dwords, u32, u32, |a, b| a.wrapping_add(b);
    paddq: qwords, from_qwords, u64, u64, |a, b| a.wrapping_add(b);
    psubb: bytes, from_bytes, u8, u8, |a, b| a.wrapping_sub(b);
    psubw: words, from_words, u16, u16, |a, b| a.wrapping_sub(b);
    psubd: dwords, from_dwords, u32, u32, |a, b| a.wrapping_sub(b);
    psubq: qwords, from_qwords, u64, u64, |a, b| a.wrapping_sub(b);
    paddsb: bytes, from_bytes, i8, u8, |a, b| a.saturating_add(b);
    paddsw: words, from_words, i16, u16, |a, b| a.saturating_add(b);
    paddusb: bytes, from_bytes, u8, u8, |a, b| a.saturating_add(b);
    paddusw: words, from_words, u16, u16, |a, b| a.saturating_add(b);
    psubsb: bytes, from_bytes, i8, u8, |a, b| a.saturating_sub(b);
    psubsw: words, from_words, i16, u16, |a, b| a.saturating_sub(b);
    psubusb: bytes, from_bytes, u8, u8, |a, b| a.saturating_sub(b);
    psubusw: words, from_words, u16, u16, |a, b| a.saturating_sub(b);

    pavgb: bytes, from_bytes, u16, u8, |a, b| (a + b + 1) >> 1;
    pavgw: words, from_words, u32, u16, |a, b| (a + b + 1) >> 1;

    pminub: bytes, from_bytes, u8, u8, |a, b| a.min(b);
    pminsb: bytes, from_bytes, i8, u8, |a, b| a.min(b);
    pminuw: words, from_words, u16, u16, |a, b| a.min(b);
    pminsw: words, from_words, i16, u16, |a, b| a.min(b);
    pminud: dwords, from_dwords, u32, u32, |a, b| a.min(b);
    pminsd: dwords, from_dwords, i32, u32, |a, b| a.min(b);
    pmaxub: bytes, from_bytes, u8, u8, |a, b| a.max(b);
    pmaxsb: bytes, from_bytes, i8, u8, |a, b| a.max(b);
    pmaxuw: words, from_words, u16, u16, |a, b| a.max(b);
    pmaxsw: words, from_words, i16, u16, |a, b| a.max(b);
    pmaxud: dwords, from_dwords, u32, u32, |a, b| a.max(b);
    pmaxsd: dwords, from_dwords, i32, u32, |a, b| a.max(b);

    pcmpeqb: bytes, from_bytes, u8, u8, |a, b| -i8::from(a == b);
    pcmpeqw: words, from_words, u16, u16, |a, b| -i16::from(a == b);
    pcmpeqd: dwords, from_dwords, u32, u32, |a, b| -i32::from(a == b);
    pcmpeqq: qwords, from_qwords, u64, u64, |a, b| -i64::from(a == b);
    pcmpgtb: bytes, from_bytes, i8, u8, |a, b| -i8::from(a > b);
    pcmpgtw: words, from_words, i16, u16, |a, b| -i16::from(a > b);
    pcmpgtd: dwords, from_dwords, i32, u32, |a, b| -i32::from(a > b);
    pcmpgtq: qwords, from_qwords, i64, u64, |a, b| -i64::from(a > b);

    psignb: bytes, from_bytes, i8, u8, |a, b| a.wrapping_mul(b.signum());
    psignw: words, from_words, i16, u16, |a, b| a.wrapping_mul(b.signum());
    psignd: dwords, from_dwords, i32, u32, |a, b| a.wrapping_mul(b.signum());

    // One-operand instructions read the second operand; the first is overwritten.
    pabsb: bytes, from_bytes, i8, u8, |_a, b| b.unsigned_abs();
    pabsw: words, from_words, i16, u16, |_a, b| b.unsigned_abs();
    pabsd: dwords, from_dwords, i32, u32, |_a, b| b.unsigned_abs();
}

#[inline]
pub fn pand(a: u128, b: u128) -> u128 {
    a & b
}

#[inline]
pub fn pandn(a: u128, b: u128) -> u128 {
    !a & b
}

#[inline]
pub fn por(a: u128, b: u128) -> u128 {
    a | b
}

#[inline]
pub fn pxor(a: u128, b: u128) -> u128 {
    a ^ b
}

/// ZF and CF of PTEST.
#[inline]
pub fn ptest(a: u128, b: u128) -> (bool, bool) {
    (a & b == 0, !a & b == 0)
}

/// PMOVMSKB: the sign of each byte.
#[inline]
pub fn pmovmskb(a: u128) -> u32 {
    sign_mask(bytes(a).map(|lane| lane >> 7 != 0))
}

/// MOVMSKPS.
#[inline]
pub fn movmskps(a: u128) -> u32 {
    sign_mask(dwords(a).map(|lane| lane >> 31 != 0))
}

/// MOVMSKPD.
#[inline]
pub fn movmskpd(a: u128) -> u32 {
    sign_mask(qwords(a).map(|lane| lane >> 63 != 0))
}

fn sign_mask<const N: usize>(signs: [bool; N]) -> u32 {
    signs.iter().rev().fold(0, |mask, &sign| mask << 1 | u32::from(sign))
}

/// The neighbours of both operands, combined: the low half of the result comes from the first.
fn horizontal_words(a: u128, b: u128, combine: fn(i16, i16) -> i16) -> u128 {
    let (x, y) = (words(a), words(b));
    from_words(from_fn(|lane| {
        let (source, pair) = if lane < 4 { (&x, lane) } else { (&y, lane - 4) };
        combine(source[2 * pair] as i16, source[2 * pair + 1] as i16) as u16
    }))
}

fn horizontal_dwords(a: u128, b: u128, combine: fn(i32, i32) -> i32) -> u128 {
    let (x, y) = (dwords(a), dwords(b));
    from_dwords(from_fn(|lane| {
        let (source, pair) = if lane < 2 { (&x, lane) } else { (&y, lane - 2) };
        combine(source[2 * pair] as i32, source[2 * pair + 1] as i32) as u32
    }))
}

pub fn phaddw(a: u128, b: u128) -> u128 {
    horizontal_words(a, b, i16::wrapping_add)
}

pub fn phaddd(a: u128, b: u128) -> u128 {
    horizontal_dwords(a, b, i32::wrapping_add)
}

pub fn phaddsw(a: u128, b: u128) -> u128 {
    horizontal_words(a, b, i16::saturating_add)
}

pub fn phsubw(a: u128, b: u128) -> u128 {
    horizontal_words(a, b, i16::wrapping_sub)
}

pub fn phsubd(a: u128, b: u128) -> u128 {
    horizontal_dwords(a, b, i32::wrapping_sub)
}

pub fn phsubsw(a: u128, b: u128) -> u128 {
    horizontal_words(a, b, i16::saturating_sub)
}

/// PHMINPOSUW: the smallest word of the second operand, then its lane.
pub fn phminposuw(_: u128, b: u128) -> u128 {
    let lanes = words(b);
    let best = (1..8).fold(0, |best, lane| if lanes[lane] < lanes[best] { lane } else { best });
    u128::from(lanes[best]) | (best as u128) << 16
}

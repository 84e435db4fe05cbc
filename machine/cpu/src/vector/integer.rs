//! Addition, subtraction, averages, minima, comparisons and sign changes, lane by lane.

use super::{
    bytes, dwords, from_bytes, from_dwords, from_words, lanewise, parallel, qwords, words,
};
use std::array::from_fn;

lanewise! {
    paddsb: bytes, from_bytes, i8, u8, |a, b| a.saturating_add(b);
    paddsw: words, from_words, i16, u16, |a, b| a.saturating_add(b);
    psubsb: bytes, from_bytes, i8, u8, |a, b| a.saturating_sub(b);
    psubsw: words, from_words, i16, u16, |a, b| a.saturating_sub(b);

    pavgb: bytes, from_bytes, u16, u8, |a, b| (a + b + 1) >> 1;
    pavgw: words, from_words, u32, u16, |a, b| (a + b + 1) >> 1;

    psignb: bytes, from_bytes, i8, u8, |a, b| a.wrapping_mul(b.signum());
    psignw: words, from_words, i16, u16, |a, b| a.wrapping_mul(b.signum());
    psignd: dwords, from_dwords, i32, u32, |a, b| a.wrapping_mul(b.signum());

    // One-operand instructions read the second operand; the first is overwritten.
    pabsb: bytes, from_bytes, i8, u8, |_a, b| b.unsigned_abs();
    pabsw: words, from_words, i16, u16, |_a, b| b.unsigned_abs();
    pabsd: dwords, from_dwords, i32, u32, |_a, b| b.unsigned_abs();
}

/// Defines functions that treat the lanes in parallel.
macro_rules! parallel {
    ($($name:ident = |$a:ident, $b:ident| $value:expr;)*) => {
        $(
            /// Lanes of `a` and `b`, treated in parallel.
            #[inline]
            pub fn $name($a: u128, $b: u128) -> u128 {
                $value
            }
        )*
    };
}

parallel! {
    paddb = |a, b| parallel::add::<8>(a, b);
    paddw = |a, b| parallel::add::<16>(a, b);
    paddd = |a, b| parallel::add::<32>(a, b);
    paddq = |a, b| parallel::add::<64>(a, b);
    psubb = |a, b| parallel::subtract::<8>(a, b);
    psubw = |a, b| parallel::subtract::<16>(a, b);
    psubd = |a, b| parallel::subtract::<32>(a, b);
    psubq = |a, b| parallel::subtract::<64>(a, b);
    paddusb = |a, b| parallel::add_saturating::<8>(a, b);
    paddusw = |a, b| parallel::add_saturating::<16>(a, b);
    psubusb = |a, b| parallel::subtract_saturating::<8>(a, b);
    psubusw = |a, b| parallel::subtract_saturating::<16>(a, b);
    pcmpeqb = |a, b| parallel::equal::<8>(a, b);
    pcmpeqw = |a, b| parallel::equal::<16>(a, b);
    pcmpeqd = |a, b| parallel::equal::<32>(a, b);
    pcmpeqq = |a, b| parallel::equal::<64>(a, b);
    pcmpgtb = |a, b| parallel::greater::<8>(a, b);
    pcmpgtw = |a, b| parallel::greater::<16>(a, b);
    pcmpgtd = |a, b| parallel::greater::<32>(a, b);
    pcmpgtq = |a, b| parallel::greater::<64>(a, b);
    pminub = |a, b| parallel::select(parallel::below::<8>(a, b), a, b);
    pminsb = |a, b| parallel::select(parallel::greater::<8>(b, a), a, b);
    pmaxub = |a, b| parallel::select(parallel::below::<8>(b, a), a, b);
    pmaxsb = |a, b| parallel::select(parallel::greater::<8>(a, b), a, b);
    pminuw = |a, b| parallel::select(parallel::below::<16>(a, b), a, b);
    pminsw = |a, b| parallel::select(parallel::greater::<16>(b, a), a, b);
    pmaxuw = |a, b| parallel::select(parallel::below::<16>(b, a), a, b);
    pmaxsw = |a, b| parallel::select(parallel::greater::<16>(a, b), a, b);
    pminud = |a, b| parallel::select(parallel::below::<32>(a, b), a, b);
    pminsd = |a, b| parallel::select(parallel::greater::<32>(b, a), a, b);
    pmaxud = |a, b| parallel::select(parallel::below::<32>(b, a), a, b);
    pmaxsd = |a, b| parallel::select(parallel::greater::<32>(a, b), a, b);
    pand = |a, b| a & b;
    pandn = |a, b| !a & b;
    por = |a, b| a | b;
    pxor = |a, b| a ^ b;
}

/// ZF and CF of PTEST.
#[inline]
pub fn ptest(a: u128, b: u128) -> (bool, bool) {
    (a & b == 0, !a & b == 0)
}

/// PMOVMSKB: the sign of each byte.
#[inline]
pub fn pmovmskb(a: u128) -> u32 {
    parallel::byte_signs(a as u64) | parallel::byte_signs((a >> 64) as u64) << 8
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

/// PHADDW: sums of neighbours, `a`'s in the low half and `b`'s in the high one.
pub fn phaddw(a: u128, b: u128) -> u128 {
    horizontal_words(a, b, i16::wrapping_add)
}

/// PHADDD: the same for dwords.
pub fn phaddd(a: u128, b: u128) -> u128 {
    horizontal_dwords(a, b, i32::wrapping_add)
}

/// PHADDSW: PHADDW with signed saturation.
pub fn phaddsw(a: u128, b: u128) -> u128 {
    horizontal_words(a, b, i16::saturating_add)
}

/// PHSUBW: differences of neighbours, the higher taken from the lower.
pub fn phsubw(a: u128, b: u128) -> u128 {
    horizontal_words(a, b, i16::wrapping_sub)
}

/// PHSUBD: the same for dwords.
pub fn phsubd(a: u128, b: u128) -> u128 {
    horizontal_dwords(a, b, i32::wrapping_sub)
}

/// PHSUBSW: PHSUBW with signed saturation.
pub fn phsubsw(a: u128, b: u128) -> u128 {
    horizontal_words(a, b, i16::saturating_sub)
}

/// PHMINPOSUW: the smallest word of the second operand, then its lane.
pub fn phminposuw(_: u128, b: u128) -> u128 {
    let lanes = words(b);
    let best = (1..8).fold(0, |best, lane| if lanes[lane] < lanes[best] { lane } else { best });
    u128::from(lanes[best]) | (best as u128) << 16
}

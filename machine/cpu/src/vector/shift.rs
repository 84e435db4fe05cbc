//! Shifts of lanes by one count for all, and of the whole register by bytes.

use super::{dwords, from_dwords, from_qwords, from_words, qwords, words};

/// Defines a shift by a 64-bit count; counts of the lane's width or more shift everything out.
macro_rules! shifts {
    ($($name:ident: $split:ident, $join:ident, $lane:ty, $shift:ident;)*) => {
        $(
            /// Each lane by the same count.
            #[inline]
            pub fn $name(a: u128, count: u64) -> u128 {
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                $join($split(a).map(|lane| lane.$shift(count).unwrap_or(0)))
            }
        )*
    };
}

shifts! {
    psllw: words, from_words, u16, checked_shl;
    pslld: dwords, from_dwords, u32, checked_shl;
    psllq: qwords, from_qwords, u64, checked_shl;
    psrlw: words, from_words, u16, checked_shr;
    psrld: dwords, from_dwords, u32, checked_shr;
    psrlq: qwords, from_qwords, u64, checked_shr;
}

/// PSRAW: larger counts leave the sign in every bit.
#[inline]
pub fn psraw(a: u128, count: u64) -> u128 {
    from_words(words(a).map(|lane| (lane as i16 >> count.min(15)) as u16))
}

/// PSRAD: counts above 31 leave the sign.
#[inline]
pub fn psrad(a: u128, count: u64) -> u128 {
    from_dwords(dwords(a).map(|lane| (lane as i32 >> count.min(31)) as u32))
}

/// PSLLDQ: by bytes.
#[inline]
pub fn pslldq(a: u128, count: u64) -> u128 {
    if count > 15 { 0 } else { a << (8 * count) }
}

/// PSRLDQ: by bytes.
#[inline]
pub fn psrldq(a: u128, count: u64) -> u128 {
    if count > 15 { 0 } else { a >> (8 * count) }
}

//! Multiplication, multiply-add and sums of absolute differences.

use super::{bytes, dwords, from_dwords, from_qwords, from_words, lanewise, qwords, words};
use std::array::from_fn;

lanewise! {
    pmullw: words, from_words, u16, u16, |a, b| a.wrapping_mul(b);
    pmulhw: words, from_words, i16, u16, |a, b| (i32::from(a) * i32::from(b)) >> 16;
    pmulhuw: words, from_words, u32, u16, |a, b| a.wrapping_mul(b) >> 16;
    pmulld: dwords, from_dwords, u32, u32, |a, b| a.wrapping_mul(b);
    pmuludq: qwords, from_qwords, u32, u64, |a, b| u64::from(a) * u64::from(b);
    pmuldq: qwords, from_qwords, i32, u64, |a, b| i64::from(a) * i64::from(b);
    pmulhrsw: words, from_words, i16, u16, |a, b| (((i32::from(a) * i32::from(b)) >> 14) + 1) >> 1;
}

/// PMADDWD: sums of the products of neighbouring signed words.
pub fn pmaddwd(a: u128, b: u128) -> u128 {
    let (x, y) = (words(a).map(|w| i32::from(w as i16)), words(b).map(|w| i32::from(w as i16)));
    from_dwords(from_fn(|lane| {
        let (low, high) = (2 * lane, 2 * lane + 1);
        (x[low] * y[low]).wrapping_add(x[high] * y[high]) as u32
    }))
}

/// PMADDUBSW: unsigned bytes of the first times signed bytes of the second, sums saturated.
pub fn pmaddubsw(a: u128, b: u128) -> u128 {
    let (x, y) = (bytes(a).map(i32::from), bytes(b).map(|byte| i32::from(byte as i8)));
    from_words(from_fn(|lane| {
        let (low, high) = (2 * lane, 2 * lane + 1);
        let sum = x[low] * y[low] + x[high] * y[high];
        sum.clamp(i16::MIN.into(), i16::MAX.into()) as u16
    }))
}

/// PSADBW: the sum of the eight absolute differences of each half.
pub fn psadbw(a: u128, b: u128) -> u128 {
    let (x, y) = (bytes(a), bytes(b));
    from_qwords(from_fn(|half| {
        (8 * half..8 * half + 8).map(|lane| u64::from(x[lane].abs_diff(y[lane]))).sum()
    }))
}

/// MPSADBW: eight windows of four bytes of the first operand against one block of the second.
pub fn mpsadbw(a: u128, b: u128, immediate: u8) -> u128 {
    let (x, y) = (bytes(a), bytes(b));
    let window = usize::from(immediate >> 2 & 1) * 4;
    let block = usize::from(immediate & 3) * 4;
    from_words(from_fn(|lane| {
        (0..4).map(|byte| u16::from(x[window + lane + byte].abs_diff(y[block + byte]))).sum()
    }))
}

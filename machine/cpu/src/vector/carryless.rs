//! PCLMULQDQ: the product of two quadwords as polynomials over GF(2).

use super::qwords;

/// The immediate's bits 0 and 4 select the quadword of the first and the second operand.
pub fn pclmulqdq(a: u128, b: u128, immediate: u8) -> u128 {
    let first = qwords(a)[usize::from(immediate & 1)];
    let second = qwords(b)[usize::from(immediate >> 4 & 1)];
    multiply(first, second)
}

/// Four bits of the multiplier at a time, from a table of the multiplicand's multiples.
fn multiply(a: u64, b: u64) -> u128 {
    let wide = u128::from(a);
    let mut multiples = [0u128; 16];
    for index in 1..16 {
        let half = multiples[index / 2] << 1;
        multiples[index] = if index % 2 == 0 { half } else { half ^ wide };
    }
    (0..16)
        .rev()
        .fold(0, |product, digit| product << 4 ^ multiples[(b >> (4 * digit) & 15) as usize])
}

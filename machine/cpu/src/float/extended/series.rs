//! Power series in 128-bit fixed point: the transcendental functions near the origin.
//!
//! All run a stated number of terms of a Horner scheme. The error stays below 2^-120 of the result,
//! so a rounding to 64 bits is wrong only when the true value is that close to a midpoint.

use crate::float::exact::{Exact, multiply_high};

/// One in the fixed point with 127 fraction bits.
const ONE: u128 = 1 << 127;

/// A magnitude below one with 128 fraction bits.
fn fraction(value: Exact) -> u128 {
    value.significand.checked_shr(-(value.exponent + 1) as u32).unwrap_or(0)
}

/// A number with 127 fraction bits as a real.
fn real(fixed: u128) -> Exact {
    Exact::normalized(false, -127, fixed).unwrap_or(Exact::one())
}

/// `z * (1 ∓ z^2/3 + z^4/5 ∓ …)`: the arc tangent (alternating) or its hyperbolic kin.
fn odd_reciprocals(z: Exact, terms: u128, is_alternating: bool) -> Exact {
    let square = fraction(z.multiply(z));
    let mut sum = ONE / (2 * terms + 1);
    for term in (0..terms).rev() {
        let rest = multiply_high(square, sum);
        let coefficient = ONE / (2 * term + 1);
        // One unit more than the truncated rest keeps the sum off the leading one, also when the
        // square vanishes: these functions never return their argument exactly.
        sum = if is_alternating { coefficient - rest - 1 } else { coefficient + rest + 1 };
    }
    z.multiply(real(sum))
}

/// The arc tangent for `|z| <= 1/16`.
pub fn arc_tangent(z: Exact) -> Exact {
    odd_reciprocals(z, 16, true)
}

/// The area hyperbolic tangent for `|z| <= 0.18`.
pub fn hyperbolic_arc_tangent(z: Exact) -> Exact {
    odd_reciprocals(z, 26, false)
}

/// `1 - z^2/(a(a+1)) (1 - z^2/((a+2)(a+3)) (1 - …))` for `|z| < 0.8`.
fn alternating_factorials(z: Exact, first: u128) -> Exact {
    const TERMS: u128 = 17;
    let square = fraction(z.multiply(z));
    let mut sum = ONE;
    for term in (0..TERMS).rev() {
        let factor = first + 2 * term;
        sum = ONE - multiply_high(square, sum) / (factor * (factor + 1)) - 1;
    }
    real(sum)
}

pub fn sine(z: Exact) -> Exact {
    z.multiply(alternating_factorials(z, 2))
}

pub fn cosine(z: Exact) -> Exact {
    alternating_factorials(z, 1)
}

/// `e^y - 1` for `|y| <= 0.7`.
pub fn exponential_minus_one(y: Exact) -> Exact {
    const TERMS: u128 = 34;
    const ONE: u128 = 1 << 126;
    let magnitude = fraction(y);
    let mut sum = ONE;
    for term in (0..TERMS).rev() {
        let rest = multiply_high(magnitude, sum) / (term + 2);
        sum = if y.is_negative { ONE - rest - 1 } else { ONE + rest + 1 };
    }
    let factor = Exact::normalized(false, -126, sum).unwrap_or(Exact::one());
    y.multiply(factor)
}

//! FPREM and FPREM1.

use super::{Extended, nan_of_two};
use crate::float::exact::{Exact, Kind, Outcome, Unpacked};
use crate::float::round::{Destination, deliver};
use crate::float::{Context, Format};

/// A remainder, the low three bits of the quotient, and whether the reduction is complete (C2
/// clear). The quotient bits are zero while it is not; a NaN has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remainder {
    /// What ST(0) becomes.
    pub value: Extended,
    /// The quotient's low three bits, as C0, C3 and C1 show them.
    pub quotient: Option<u8>,
    /// C2 clear: no further step is needed.
    pub is_complete: bool,
}

/// FPREM rounds the quotient toward zero, FPREM1 (`is_nearest`) to the nearest integer.
pub fn remainder(a: Unpacked, b: Unpacked, is_nearest: bool, context: &mut Context) -> Remainder {
    if let Some(value) = nan_of_two(&a, &b, context) {
        return Remainder { value, quotient: None, is_complete: true };
    }
    let is_negative = a.is_negative;
    let (outcome, quotient, is_complete) = match (a.kind, b.kind) {
        (Kind::Infinity, _) | (_, Kind::Zero) => (Outcome::Invalid, 0, true),
        (Kind::Zero, _) => (Outcome::Zero { is_negative }, 0, true),
        (_, Kind::Infinity) => (Outcome::Finite(a.exact()), 0, true),
        _ => reduce(&a, &b, is_nearest),
    };
    let has_denormal = a.is_denormal || b.is_denormal;
    let parts = deliver(outcome, has_denormal, Format::EXTENDED, Destination::Register, context);
    let quotient = (outcome != Outcome::Invalid).then_some(quotient);
    Remainder { value: Extended::pack(parts), quotient, is_complete }
}

fn reduce(a: &Unpacked, b: &Unpacked, is_nearest: bool) -> (Outcome, u8, bool) {
    let distance = a.exponent - b.exponent;
    if distance >= 64 {
        // The amount reduced per execution is the implementation's choice of 32 to 63.
        let steps = distance & 31 | 32;
        let (_, rest) = long_division(a.significand, b.significand, steps);
        let exponent = b.exponent + distance - steps;
        return (outcome(a.is_negative, exponent, rest), 0, false);
    }
    if distance < -1 || distance < 0 && !is_nearest {
        return (Outcome::Finite(a.exact()), 0, true);
    }
    // In units of half a last place of the divisor, so that a distance of -1 needs no fraction.
    let divisor = u128::from(b.significand) << 1;
    let (mut quotient, mut rest) = match distance {
        -1 => (0, u128::from(a.significand)),
        _ => {
            let (quotient, rest) = long_division(a.significand, b.significand, distance);
            (quotient, rest << 1)
        }
    };
    let mut is_negative = a.is_negative;
    let twice = rest << 1;
    if is_nearest && (twice > divisor || twice == divisor && quotient & 1 == 1) {
        rest = divisor - rest;
        quotient = quotient.wrapping_add(1);
        is_negative = !is_negative;
    }
    let value = match rest {
        0 => Outcome::Zero { is_negative: a.is_negative },
        _ => outcome(is_negative, b.exponent - 1, rest),
    };
    (value, (quotient & 7) as u8, true)
}

/// A rest in units of the last place of a 64-bit significand at `exponent`.
fn outcome(is_negative: bool, exponent: i32, rest: u128) -> Outcome {
    match Exact::normalized(is_negative, exponent - 63, rest) {
        Some(exact) => Outcome::Finite(exact),
        None => Outcome::Zero { is_negative },
    }
}

/// `a * 2^steps` divided by `b`, one quotient bit at a time (at most 64): the low quotient bits
/// and the rest, in units of b's last place.
fn long_division(a: u64, b: u64, steps: i32) -> (u64, u128) {
    let (mut rest, divisor) = (u128::from(a), u128::from(b));
    let mut quotient = 0u64;
    for step in 0..=steps {
        if step > 0 {
            rest <<= 1;
        }
        quotient <<= 1;
        if rest >= divisor {
            rest -= divisor;
            quotient |= 1;
        }
    }
    (quotient, rest)
}

//! FADD, FSUB, FMUL, FDIV, FSQRT, FRNDINT, FSCALE and FXTRACT.

use super::{Extended, nan_of_one, nan_of_two};
use crate::float::exact::{self, Exact, Kind, Outcome, Unpacked};
use crate::float::round::{Destination, deliver, round};
use crate::float::scalar::integral_parts;
use crate::float::{Context, Exceptions, Format, Rounding};

fn binary(
    a: Unpacked,
    b: Unpacked,
    context: &mut Context,
    operation: fn(&Unpacked, &Unpacked, Rounding) -> Outcome,
) -> Extended {
    if let Some(nan) = nan_of_two(&a, &b, context) {
        return nan;
    }
    let outcome = operation(&a, &b, context.rounding);
    let has_denormal = a.is_denormal || b.is_denormal;
    let format = context.precision;
    Extended::pack(deliver(outcome, has_denormal, format, Destination::Register, context))
}

/// FADD, rounded to the context's precision.
pub fn add(a: Unpacked, b: Unpacked, context: &mut Context) -> Extended {
    binary(a, b, context, exact::add)
}

/// FSUB, rounded to the context's precision.
pub fn subtract(a: Unpacked, b: Unpacked, context: &mut Context) -> Extended {
    binary(a, b, context, exact::subtract)
}

/// FMUL, rounded to the context's precision.
pub fn multiply(a: Unpacked, b: Unpacked, context: &mut Context) -> Extended {
    binary(a, b, context, exact::multiply)
}

/// FDIV, rounded to the context's precision.
pub fn divide(a: Unpacked, b: Unpacked, context: &mut Context) -> Extended {
    binary(a, b, context, exact::divide_by)
}

/// FSQRT, rounded to the context's precision.
pub fn square_root(a: Unpacked, context: &mut Context) -> Extended {
    context.is_rounded_up = false;
    if let Some(nan) = nan_of_one(&a, context) {
        return nan;
    }
    let outcome = exact::square_root(&a);
    let format = context.precision;
    Extended::pack(deliver(outcome, a.is_denormal, format, Destination::Register, context))
}

/// FRNDINT.
pub fn round_to_integral(a: Extended, context: &mut Context) -> Extended {
    context.is_rounded_up = false;
    let x = a.unpack();
    if let Some(nan) = nan_of_one(&x, context) {
        return nan;
    }
    if x.kind != Kind::Finite || x.exponent >= 63 || context.stops_at_denormal(x.is_denormal) {
        return a;
    }
    let (magnitude, is_inexact, is_up) = x.exact().to_integer(context.rounding);
    if is_inexact {
        context.raise(Exceptions::PRECISION);
        context.is_rounded_up = is_up;
    }
    integral_parts(x.is_negative, magnitude as u64, Format::EXTENDED)
        .map_or(Extended::INDEFINITE, Extended::pack)
}

/// FSCALE: `a * 2^trunc(scale)`.
pub fn scale(a: Unpacked, scale: Unpacked, context: &mut Context) -> Extended {
    if let Some(nan) = nan_of_two(&a, &scale, context) {
        return nan;
    }
    let is_negative = a.is_negative;
    let outcome = match (a.kind, scale.kind) {
        (Kind::Zero, Kind::Infinity) if !scale.is_negative => Outcome::Invalid,
        (Kind::Infinity, Kind::Infinity) if scale.is_negative => Outcome::Invalid,
        (Kind::Infinity, _) => Outcome::Infinity { is_negative },
        (Kind::Zero, _) => Outcome::Zero { is_negative },
        (_, Kind::Infinity) if scale.is_negative => Outcome::Zero { is_negative },
        (_, Kind::Infinity) => Outcome::Infinity { is_negative },
        _ => {
            let exponent = a.exponent + truncated(&scale);
            Outcome::Finite(Exact { exponent, ..a.exact() })
        }
    };
    let has_denormal = a.is_denormal || scale.is_denormal;
    let format = Format::EXTENDED;
    Extended::pack(deliver(outcome, has_denormal, format, Destination::Register, context))
}

/// The integer part of a scale, saturated where every result over- or underflows anyway.
fn truncated(scale: &Unpacked) -> i32 {
    const LIMIT: u128 = 1 << 17;
    if scale.is_zero() {
        return 0;
    }
    let (magnitude, _, _) = scale.exact().to_integer(Rounding::Zero);
    let magnitude = magnitude.min(LIMIT) as i32;
    if scale.is_negative { -magnitude } else { magnitude }
}

/// FXTRACT: the exponent as a real (it replaces ST0) and the significand (pushed after it).
pub fn extract(a: Unpacked, context: &mut Context) -> (Extended, Extended) {
    context.is_rounded_up = false;
    if let Some(nan) = nan_of_one(&a, context) {
        return (nan, nan);
    }
    match a.kind {
        Kind::Zero => {
            context.raise(Exceptions::ZERO_DIVIDE);
            (Extended::infinity(true), Extended::zero(a.is_negative))
        }
        Kind::Infinity => (Extended::infinity(false), Extended::infinity(a.is_negative)),
        _ => {
            context.stops_at_denormal(a.is_denormal);
            let exponent = Unpacked::from_integer(i64::from(a.exponent));
            let significand = Exact { exponent: 0, ..a.exact() };
            let parts = round(significand, Format::EXTENDED, Destination::Register, context);
            (Extended::from_unpacked(exponent), Extended::pack(parts))
        }
    }
}

//! F2XM1, FYL2X and FYL2XP1, and how every transcendental result is rounded.
//!
//! The functions are evaluated with about 120 bits and rounded once, so they are correctly rounded
//! but for cases that no processor gets right either. Chips differ from each other, and from this,
//! in the last place [SDM1 "Transcendental Instruction Accuracy"].

pub use super::trigonometric::{Function, arc_tangent, trigonometric};
use super::{Extended, nan_of_one, nan_of_two, series};
use crate::float::exact::{Exact, Kind, Outcome, Unpacked};
use crate::float::round::{Destination, deliver};
use crate::float::{Context, Exceptions, Format};

/// log2(e).
const LOG2_E: Exact = Exact {
    is_negative: false,
    exponent: 0,
    significand: 0xB8AA_3B29_5C17_F0BB_BE87_FED0_691D_3E89,
};

/// ln(2).
const LN_2: Exact = Exact {
    is_negative: false,
    exponent: -1,
    significand: 0xB172_17F7_D1CF_79AB_C9E3_B398_03F2_F6AF,
};

pub(super) fn exactly(outcome: Outcome, has_denormal: bool, context: &mut Context) -> Extended {
    let (format, destination) = (Format::EXTENDED, Destination::Register);
    Extended::pack(deliver(outcome, has_denormal, format, destination, context))
}

/// Rounds an irrational result: the sticky bit says that there is always more.
pub(super) fn inexact(value: Exact, has_denormal: bool, context: &mut Context) -> Extended {
    let value = Exact { significand: value.significand | 1, ..value };
    exactly(Outcome::Finite(value), has_denormal, context)
}

/// Rounds an exact result. The processor does not notice that it is exact.
fn reported_inexact(value: Exact, has_denormal: bool, context: &mut Context) -> Extended {
    let result = exactly(Outcome::Finite(value), has_denormal, context);
    if !context.unmasked().contains(Exceptions::DENORMAL) {
        context.raise(Exceptions::PRECISION);
        if result.unpack().is_denormal {
            context.raise(Exceptions::UNDERFLOW);
        }
    }
    result
}

/// F2XM1: `2^x - 1` for `|x| <= 1`. Beyond, where the manual promises nothing, x is returned.
pub fn power_minus_one(x: Unpacked, context: &mut Context) -> Extended {
    context.is_rounded_up = false;
    if let Some(nan) = nan_of_one(&x, context) {
        return nan;
    }
    let is_negative = x.is_negative;
    match x.kind {
        Kind::Zero => Extended::zero(is_negative),
        Kind::Infinity if is_negative => Extended::ONE.negated(),
        Kind::Infinity => Extended::infinity(false),
        _ if x.exponent < 0 => {
            inexact(series::exponential_minus_one(x.exact().multiply(LN_2)), x.is_denormal, context)
        }
        _ if x.exponent == 0 && x.significand == 1 << 63 => {
            let exponent = -i32::from(is_negative);
            reported_inexact(Exact { is_negative, exponent, ..Exact::one() }, false, context)
        }
        _ => Extended::from_unpacked(x),
    }
}

/// FYL2X: `y * log2(x)`, y from ST1 and x from ST0.
pub fn logarithm(y: Unpacked, x: Unpacked, context: &mut Context) -> Extended {
    if let Some(nan) = nan_of_two(&y, &x, context) {
        return nan;
    }
    let has_denormal = x.is_denormal || y.is_denormal;
    match (x.kind, y.kind) {
        (Kind::Zero, Kind::Zero) => exactly(Outcome::Invalid, has_denormal, context),
        (Kind::Zero, Kind::Infinity) => {
            exactly(Outcome::Infinity { is_negative: !y.is_negative }, has_denormal, context)
        }
        (Kind::Zero, _) => {
            exactly(Outcome::DivideByZero { is_negative: !y.is_negative }, has_denormal, context)
        }
        _ if x.is_negative => exactly(Outcome::Invalid, has_denormal, context),
        (Kind::Infinity, _) => times_infinity(&y, false, has_denormal, context),
        _ => times(&y, log2(x.exact()), has_denormal, context),
    }
}

/// FYL2XP1: `y * log2(x + 1)`. At and below -1, where the manual promises nothing, it is invalid.
pub fn logarithm_plus_one(y: Unpacked, x: Unpacked, context: &mut Context) -> Extended {
    if let Some(nan) = nan_of_two(&y, &x, context) {
        return nan;
    }
    let has_denormal = x.is_denormal || y.is_denormal;
    match x.kind {
        Kind::Zero if y.is_infinite() => exactly(Outcome::Invalid, has_denormal, context),
        Kind::Zero => {
            let is_negative = x.is_negative != y.is_negative;
            exactly(Outcome::Zero { is_negative }, has_denormal, context)
        }
        _ if x.is_negative && (x.is_infinite() || x.exponent >= 0) => {
            exactly(Outcome::Invalid, has_denormal, context)
        }
        Kind::Infinity => times_infinity(&y, false, has_denormal, context),
        _ => times(&y, log2_plus_one(x.exact()), has_denormal, context),
    }
}

fn times_infinity(
    y: &Unpacked,
    is_negative: bool,
    has_denormal: bool,
    context: &mut Context,
) -> Extended {
    let outcome = match y.kind {
        Kind::Zero => Outcome::Invalid,
        _ => Outcome::Infinity { is_negative: y.is_negative != is_negative },
    };
    exactly(outcome, has_denormal, context)
}

/// A logarithm, and whether it is exactly that (an integer); `None` is zero.
type Logarithm = Option<(Exact, bool)>;

fn times(
    y: &Unpacked,
    logarithm: Logarithm,
    has_denormal: bool,
    context: &mut Context,
) -> Extended {
    let Some((factor, is_exact)) = logarithm else {
        let outcome = match y.kind {
            Kind::Infinity => Outcome::Invalid,
            _ => Outcome::Zero { is_negative: y.is_negative },
        };
        return exactly(outcome, has_denormal, context);
    };
    let is_negative = y.is_negative != factor.is_negative;
    match y.kind {
        Kind::Zero => exactly(Outcome::Zero { is_negative }, has_denormal, context),
        Kind::Infinity => exactly(Outcome::Infinity { is_negative }, has_denormal, context),
        _ => {
            let product = y.exact().multiply(factor);
            match is_exact {
                true => reported_inexact(product, has_denormal, context),
                false => inexact(product, has_denormal, context),
            }
        }
    }
}

/// The logarithm of a positive number.
fn log2(x: Exact) -> Logarithm {
    /// The square root of two, where the significand is halved to stay around one.
    const ROOT_OF_TWO: u128 = 0xB504_F333_F9DE_6484 << 64;
    let halve = i32::from(x.significand > ROOT_OF_TWO);
    let exponent = x.exponent + halve;
    let whole = integer(exponent);
    let reduced = Exact { exponent: -halve, ..x };
    let Some(difference) = reduced.plus(Exact::one().negated()) else {
        return whole.map(|whole| (whole, true));
    };
    let sum = reduced.plus(Exact::one()).unwrap_or(Exact::one());
    let part = log2_of_ratio(difference.divide(sum));
    let total = match whole {
        Some(whole) => whole.plus(part).unwrap_or(part),
        None => part,
    };
    Some((total, false))
}

fn log2_plus_one(x: Exact) -> Logarithm {
    let one = Exact::one();
    if x.exponent >= -2 {
        return x.plus(one).and_then(log2);
    }
    let two = Exact { exponent: 1, ..one };
    let denominator = x.plus(two).unwrap_or(two);
    Some((log2_of_ratio(x.divide(denominator)), false))
}

/// `log2((1 + z) / (1 - z))`.
fn log2_of_ratio(z: Exact) -> Exact {
    let natural = series::hyperbolic_arc_tangent(z);
    let product = natural.multiply(LOG2_E);
    Exact { exponent: product.exponent + 1, ..product }
}

fn integer(value: i32) -> Option<Exact> {
    Exact::normalized(value < 0, 0, u128::from(value.unsigned_abs()))
}

//! SSE conversions between the two formats and integers.

use super::exact::{Exact, Kind, Outcome, Unpacked};
use super::round::{Destination, deliver, round};
use super::scalar::{Interchange, quieted};
use super::{Context, Exceptions, Rounding};

/// CVTSD2SS, CVTSS2SD and the packed forms.
pub fn between<A: Interchange, B: Interchange>(a: A, context: &mut Context) -> B {
    let x = a.unpack(context);
    let outcome = match x.kind {
        Kind::Zero => Outcome::Zero { is_negative: x.is_negative },
        Kind::Finite => Outcome::Finite(x.exact()),
        Kind::Infinity => Outcome::Infinity { is_negative: x.is_negative },
        _ => return B::pack(quieted(x, B::FORMAT, context)),
    };
    B::pack(deliver(outcome, x.is_denormal, B::FORMAT, Destination::Lane, context))
}

/// CVTSI2SS, CVTSI2SD and the packed forms.
pub fn from_integer<B: Interchange>(value: i64, context: &mut Context) -> B {
    let x = Unpacked::from_integer(value);
    match x.kind {
        Kind::Finite => B::pack(round(x.exact(), B::FORMAT, Destination::Lane, context)),
        _ => B::truncated(0),
    }
}

/// CVTSS2SI and its kin to an integer of `bits` bits, with `rounding` (the CVTT forms: toward
/// zero). What does not fit is the integer indefinite, the most negative value.
pub fn to_integer<B: Interchange>(
    a: B,
    bits: u32,
    rounding: Rounding,
    context: &mut Context,
) -> i64 {
    let x = a.unpack(context);
    let magnitude = match x.kind {
        Kind::Zero => return 0,
        Kind::Finite => integer_magnitude(x.exact(), bits, rounding),
        _ => None,
    };
    let Some((value, is_inexact, _)) = magnitude else {
        context.raise(Exceptions::INVALID);
        return i64::MIN >> (64 - bits);
    };
    if is_inexact {
        context.raise(Exceptions::PRECISION);
    }
    value
}

/// The integer nearest to a real in the given direction, whether it was inexact and went up in
/// magnitude; `None` if it does not fit in `bits` bits.
pub fn integer_magnitude(exact: Exact, bits: u32, rounding: Rounding) -> Option<(i64, bool, bool)> {
    let (magnitude, is_inexact, is_up) = exact.to_integer(rounding);
    let limit = (1u128 << (bits - 1)) - u128::from(!exact.is_negative);
    let value = (magnitude as u64).wrapping_neg() as i64;
    let value = if exact.is_negative { value } else { magnitude as i64 };
    (magnitude <= limit).then_some((value, is_inexact, is_up))
}

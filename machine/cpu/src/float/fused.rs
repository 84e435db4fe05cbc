//! FMA: `x * y + z` with one rounding. [SDM1 "Fused-Multiply-ADD (FMA) Numeric Behavior"]

use super::exact::{Exact, Kind, Outcome, QUIET, Unpacked};
use super::round::{Destination, Parts, deliver};
use super::scalar::Interchange;
use super::{Context, Exceptions, Rounding};

/// What becomes of the signs before the sum; a NaN keeps its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signs {
    /// The product is taken negative.
    pub negates_product: bool,
    /// The addend is.
    pub negates_addend: bool,
}

/// Of several NaN the result is the first in the order of `x`, `y`, `z`; with one, the product of
/// zero and infinity raises nothing.
pub fn fused<B: Interchange>(x: B, y: B, z: B, signs: Signs, context: &mut Context) -> B {
    let operands = [x.unpack(context), y.unpack(context), z.unpack(context)];
    let [x, y, z] = &operands;
    let is_undefined = x.is_infinite() && y.is_zero() || x.is_zero() && y.is_infinite();
    let has_signaling = operands.iter().any(|operand| operand.kind == Kind::Signaling);
    if let Some(nan) = operands.iter().find(|operand| operand.is_nan()) {
        if has_signaling {
            context.raise(Exceptions::INVALID);
        }
        return B::pack(Parts::nan(nan.is_negative, nan.significand | QUIET, B::FORMAT));
    }
    let product = product(x, y, is_undefined, signs.negates_product);
    let addend = if signs.negates_addend { z.negated() } else { *z };
    let outcome = sum(product, &addend, context.rounding);
    let has_denormal = operands.iter().any(|operand| operand.is_denormal);
    B::pack(deliver(outcome, has_denormal, B::FORMAT, Destination::Lane, context))
}

fn product(x: &Unpacked, y: &Unpacked, is_undefined: bool, negates: bool) -> Outcome {
    let is_negative = x.is_negative ^ y.is_negative ^ negates;
    if is_undefined {
        Outcome::Invalid
    } else if x.is_infinite() || y.is_infinite() {
        Outcome::Infinity { is_negative }
    } else if x.is_zero() || y.is_zero() {
        Outcome::Zero { is_negative }
    } else {
        Outcome::Finite(Exact { is_negative, ..x.exact().multiply(y.exact()) })
    }
}

fn sum(product: Outcome, addend: &Unpacked, rounding: Rounding) -> Outcome {
    let cancelled = Outcome::Zero { is_negative: rounding == Rounding::Down };
    match (product, addend.kind) {
        (Outcome::Infinity { is_negative }, Kind::Infinity) => {
            match is_negative == addend.is_negative {
                true => product,
                false => Outcome::Invalid,
            }
        }
        (Outcome::Invalid | Outcome::Infinity { .. }, _) => product,
        (_, Kind::Infinity) => Outcome::Infinity { is_negative: addend.is_negative },
        (Outcome::Finite(exact), Kind::Finite) => {
            exact.plus(addend.exact()).map_or(cancelled, Outcome::Finite)
        }
        (Outcome::Finite(_), _) => product,
        (_, Kind::Finite) => Outcome::Finite(addend.exact()),
        (Outcome::Zero { is_negative }, _) if is_negative == addend.is_negative => product,
        _ => cancelled,
    }
}

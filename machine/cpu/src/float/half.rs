//! F16C: conversions of half-precision numbers. [SDM1 "Half-Precision Floating-Point Conversion"]

use super::exact::{Kind, Outcome, QUIET, Unpacked};
use super::round::{Destination, Parts, deliver};
use super::scalar::Interchange;
use super::{Context, Exceptions, Format, Rounding};
use crate::vector::{dwords, from_dwords};

/// binary16.
const HALF: Format = Format { precision: 11, bias: 15 };
const SIGN: u16 = 0x8000;
const FRACTION: u16 = 0x3FF;

/// VCVTPH2PS: four half-precision numbers. Denormal ones are not zeros, whatever MXCSR says, and
/// raise nothing.
pub fn to_singles(source: u64, context: &mut Context) -> u128 {
    let lane = |at: u32| (source >> (16 * at)) as u16;
    from_dwords([0, 1, 2, 3].map(|at| to_single(lane(at), context)))
}

fn to_single(half: u16, context: &mut Context) -> u32 {
    let biased = i32::from(half & !SIGN) >> 10;
    let fraction = u64::from(half & FRACTION);
    let x = Unpacked::from_fields(half & SIGN != 0, biased, fraction, HALF);
    if x.kind == Kind::Signaling {
        context.raise(Exceptions::INVALID);
    }
    u32::pack(match x.kind {
        Kind::Zero => Parts::zero(x.is_negative),
        Kind::Infinity => Parts::infinity(x.is_negative, u32::FORMAT),
        Kind::Finite => Parts {
            is_negative: x.is_negative,
            biased: x.exponent + u32::FORMAT.bias,
            significand: x.significand,
        },
        _ => Parts::nan(x.is_negative, x.significand | QUIET, u32::FORMAT),
    })
}

/// VCVTPS2PH: four singles, rounded as the immediate says or as MXCSR does. Tiny results stay
/// denormal numbers, whatever MXCSR says.
pub fn from_singles(source: u128, immediate: u8, context: &mut Context) -> u64 {
    const USE_MXCSR: u8 = 1 << 2;
    let held = (context.rounding, context.flush_to_zero);
    if immediate & USE_MXCSR == 0 {
        context.rounding = Rounding::from_bits(immediate.into());
    }
    context.flush_to_zero = false;
    let lanes = dwords(source).map(|lane| from_single(lane, context));
    (context.rounding, context.flush_to_zero) = held;
    lanes.iter().rev().fold(0, |all, lane| all << 16 | u64::from(*lane))
}

fn from_single(single: u32, context: &mut Context) -> u16 {
    let x = single.unpack(context);
    if x.is_nan() {
        if x.kind == Kind::Signaling {
            context.raise(Exceptions::INVALID);
        }
        return packed(Parts::nan(x.is_negative, x.significand | QUIET, HALF));
    }
    let outcome = match x.kind {
        Kind::Zero => Outcome::Zero { is_negative: x.is_negative },
        Kind::Finite => Outcome::Finite(x.exact()),
        _ => Outcome::Infinity { is_negative: x.is_negative },
    };
    packed(deliver(outcome, x.is_denormal, HALF, Destination::Lane, context))
}

fn packed(parts: Parts) -> u16 {
    let fraction = (parts.significand << 1 >> 54) as u16;
    let sign = if parts.is_negative { SIGN } else { 0 };
    sign | (parts.biased as u16) << 10 | fraction
}

//! FSIN, FCOS, FSINCOS, FPTAN and FPATAN.

use super::series;
use super::transcendental::inexact;
use super::{Extended, nan_of_one, nan_of_two};
use crate::float::exact::{Exact, Kind, Outcome, Unpacked};
use crate::float::{Context, Exceptions};

/// Half of pi to 66 significant bits, in units of 2^-65. The processor reduces arguments by this
/// value, which software sees near multiples of pi [SDM1 "Approximation of Pi"].
const HALF_PI: u128 = 0x3_243F_6A88_85A3_08D3;
const HALF_PI_SCALE: i32 = 65;

/// Half of pi in full, for the results of FPATAN.
const HALF_PI_EXACT: Exact = Exact {
    is_negative: false,
    exponent: 0,
    significand: 0xC90F_DAA2_2168_C234_C4C6_628B_80DC_1CD1,
};

/// The arc tangents of 1/8 to 8/8, with 128 fraction bits.
const ARC_TANGENTS: [u128; 8] = [
    0x1FD5_BA9A_AC2F_6DC6_5912_F313_E7D1_11DF,
    0x3EB6_EBF2_5901_BAC5_5B71_E7BD_7DE8_85F9,
    0x5BD8_6507_937B_C239_C551_9091_6E7F_2242,
    0x76B1_9C15_86ED_3DA2_B7F2_22F6_5E1D_4682,
    0x8F00_5D5E_F7F5_9F9B_5C83_5E16_65C4_3748,
    0xA4BC_7D19_34F7_0924_19A8_7F2A_457D_AC9F,
    0xB805_3E2B_C231_9E73_CB2D_A552_10A4_443D,
    0xC90F_DAA2_2168_C234_C4C6_628B_80DC_1CD1,
];

/// Which function, or which of a pair of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// FSIN.
    Sine,
    /// FCOS, FSINCOS's second result.
    Cosine,
    /// FPTAN.
    Tangent,
}

/// FSIN, FCOS and the tangent of FPTAN; `None` is C2: the operand, of 2^63 or more, is out of
/// range and nothing changes.
pub fn trigonometric(function: Function, a: Unpacked, context: &mut Context) -> Option<Extended> {
    context.is_rounded_up = false;
    if let Some(nan) = nan_of_one(&a, context) {
        return Some(nan);
    }
    match (a.kind, function) {
        (Kind::Infinity, _) => {
            context.raise(Exceptions::INVALID);
            Some(Extended::INDEFINITE)
        }
        (Kind::Zero, Function::Cosine) => Some(Extended::ONE),
        (Kind::Zero, _) => Some(Extended::zero(a.is_negative)),
        _ if a.exponent >= 63 => None,
        _ => Some(inexact(evaluate(function, &a), a.is_denormal, context)),
    }
}

fn evaluate(function: Function, a: &Unpacked) -> Exact {
    let (quadrant, rest) = reduce(a);
    let negative_if = |value: Exact, is_negative: bool| {
        if is_negative { value.negated() } else { value }
    };
    let sine = |quadrant: u32| {
        let value = match quadrant & 1 {
            0 => series::sine(rest),
            _ => series::cosine(rest),
        };
        negative_if(value, quadrant & 2 != 0)
    };
    let value = match function {
        Function::Sine => sine(quadrant),
        Function::Cosine => return sine(quadrant + 1),
        Function::Tangent => sine(quadrant).divide(sine(quadrant + 1)),
    };
    negative_if(value, a.is_negative)
}

/// Reduces the magnitude of an operand below 2^63 to at most a quarter of pi: the quadrant and the
/// (never zero) rest, exact with respect to the processor's value of pi.
fn reduce(a: &Unpacked) -> (u32, Exact) {
    let magnitude = Exact { is_negative: false, ..a.exact() };
    if a.exponent < -1 {
        return (0, magnitude);
    }
    let (mut rest, mut quotient) = (0u128, 0u32);
    let steps = 64 + a.exponent + HALF_PI_SCALE - 63;
    for step in 0..steps {
        let bit = if step < 64 { a.significand >> (63 - step) & 1 } else { 0 };
        rest = rest << 1 | u128::from(bit);
        quotient <<= 1;
        if rest >= HALF_PI {
            rest -= HALF_PI;
            quotient |= 1;
        }
    }
    let is_beyond = rest > HALF_PI / 2;
    let distance = if is_beyond { HALF_PI - rest } else { rest };
    let quadrant = quotient.wrapping_add(u32::from(is_beyond)) & 3;
    // No 64-bit significand is a multiple of the odd 66-bit constant: the rest is not zero.
    let rest = Exact::normalized(is_beyond, -HALF_PI_SCALE, distance).unwrap_or(magnitude);
    (quadrant, rest)
}

/// FPATAN: the angle of the point (x, y), y from ST1 and x from ST0.
pub fn arc_tangent(y: Unpacked, x: Unpacked, context: &mut Context) -> Extended {
    if let Some(nan) = nan_of_two(&y, &x, context) {
        return nan;
    }
    let has_denormal = x.is_denormal || y.is_denormal;
    let angle = match (y.kind, x.kind) {
        (Kind::Zero, _) if !x.is_negative => None,
        (Kind::Zero, _) => Some(pi_quarters(4)),
        (Kind::Infinity, Kind::Infinity) => Some(pi_quarters(if x.is_negative { 3 } else { 1 })),
        (Kind::Infinity, _) | (_, Kind::Zero) => Some(pi_quarters(2)),
        (_, Kind::Infinity) if x.is_negative => Some(pi_quarters(4)),
        (_, Kind::Infinity) => None,
        _ => Some(angle_of(&y, &x)),
    };
    match angle {
        Some(angle) => {
            inexact(Exact { is_negative: y.is_negative, ..angle }, has_denormal, context)
        }
        None => super::transcendental::exactly(
            Outcome::Zero { is_negative: y.is_negative },
            has_denormal,
            context,
        ),
    }
}

fn pi_quarters(count: u64) -> Exact {
    let quarter = Exact { exponent: -1, ..HALF_PI_EXACT };
    match Exact::normalized(false, 0, u128::from(count)) {
        Some(factor) => quarter.multiply(factor),
        None => quarter,
    }
}

/// The angle of a point in the upper half plane with finite coordinates.
fn angle_of(y: &Unpacked, x: &Unpacked) -> Exact {
    let y = Exact { is_negative: false, ..y.exact() };
    let magnitude = Exact { is_negative: false, ..x.exact() };
    let is_steep = (y.exponent, y.significand) > (magnitude.exponent, magnitude.significand);
    let acute = match is_steep {
        true => sum(HALF_PI_EXACT, arc_tangent_of(magnitude.divide(y)).negated()),
        false => arc_tangent_of(y.divide(magnitude)),
    };
    if x.is_negative { sum(pi_quarters(4), acute.negated()) } else { acute }
}

/// A sum known not to vanish.
fn sum(a: Exact, b: Exact) -> Exact {
    a.plus(b).unwrap_or(a)
}

/// The arc tangent of a ratio in (0, 1]: the nearest eighth from the table, the rest by series.
fn arc_tangent_of(ratio: Exact) -> Exact {
    let sixteenths = match ratio.exponent {
        ..-4 => 0,
        exponent => (ratio.significand >> (123 - exponent)) as u64,
    };
    let eighths = sixteenths.div_ceil(2).min(8) as usize;
    let Some(base) = eighths.checked_sub(1).and_then(|index| ARC_TANGENTS.get(index)) else {
        return series::arc_tangent(ratio);
    };
    let (Some(eighth), Some(base)) =
        (Exact::normalized(false, -3, eighths as u128), Exact::normalized(false, -128, *base))
    else {
        return ratio;
    };
    match ratio.plus(eighth.negated()) {
        None => base,
        Some(rest) => {
            let rest = rest.divide(sum(Exact::one(), ratio.multiply(eighth)));
            sum(base, series::arc_tangent(rest))
        }
    }
}

//! From an exact result to the encoding that is stored: rounding, overflow, underflow, and what
//! happens instead when software unmasked an exception.

use super::exact::{Exact, INDEFINITE, Outcome, round_at, shift_right_sticky};
use super::{Context, Exceptions, Format, Rounding};

/// The fields of a result, with the integer bit in bit 63 of the significand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    pub is_negative: bool,
    /// The exponent field: zero for zeros and denormals, all ones for infinities and NaNs.
    pub biased: i32,
    pub significand: u64,
}

/// Where a result goes decides what an unmasked overflow or underflow leaves there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// An x87 register receives the result with its exponent moved by 24,576.
    Register,
    /// Memory written by x87 stores receives nothing, and the result is not rounded.
    Memory,
    /// An XMM register receives nothing.
    Lane,
}

/// The exponent adjustment of [SDM1 "Numeric Overflow Exception"].
const UNMASKED_ADJUSTMENT: i32 = 24576;

impl Parts {
    pub fn zero(is_negative: bool) -> Parts {
        Parts { is_negative, biased: 0, significand: 0 }
    }

    pub fn infinity(is_negative: bool, format: Format) -> Parts {
        Parts { is_negative, biased: format.special_exponent(), significand: 1 << 63 }
    }

    pub fn nan(is_negative: bool, significand: u64, format: Format) -> Parts {
        Parts { is_negative, biased: format.special_exponent(), significand }
    }

    pub fn indefinite(format: Format) -> Parts {
        Parts::nan(true, INDEFINITE, format)
    }
}

/// Rounds and stores an operation's outcome, raising what it raises. The denormal exception comes
/// after those that make the operands' values irrelevant, and before those of the result.
pub fn deliver(
    outcome: Outcome,
    has_denormal: bool,
    format: Format,
    destination: Destination,
    context: &mut Context,
) -> Parts {
    context.is_rounded_up = false;
    match outcome {
        Outcome::Invalid => {
            context.raise(Exceptions::INVALID);
            Parts::indefinite(format)
        }
        Outcome::DivideByZero { is_negative } => {
            context.raise(Exceptions::ZERO_DIVIDE);
            Parts::infinity(is_negative, format)
        }
        _ if context.stops_at_denormal(has_denormal) => Parts::indefinite(format),
        Outcome::Zero { is_negative } => Parts::zero(is_negative),
        Outcome::Finite(exact) => round(exact, format, destination, context),
        Outcome::Infinity { is_negative } => Parts::infinity(is_negative, format),
    }
}

/// Rounds a non-zero real to a format.
pub fn round(
    exact: Exact,
    format: Format,
    destination: Destination,
    context: &mut Context,
) -> Parts {
    let Exact { is_negative, significand, .. } = exact;
    let drop = 128 - format.precision;
    let (mut kept, is_inexact, is_up) = round_at(significand, drop, is_negative, context.rounding);
    let mut exponent = exact.exponent;
    if kept >> format.precision != 0 {
        kept >>= 1;
        exponent += 1;
    }
    let aligned = (kept as u64) << (64 - format.precision);
    context.is_rounded_up = is_up;
    if exponent > format.max_exponent() {
        return overflow(
            Rounded { is_negative, exponent, aligned, is_inexact },
            format,
            destination,
            context,
        );
    }
    // Tininess is judged after rounding, as if the exponent range had no end.
    if exponent < format.min_exponent() {
        if context.masks(Exceptions::UNDERFLOW) {
            return denormalize(exact, format, context);
        }
        context.raise(Exceptions::UNDERFLOW);
        let exponent = exponent + UNMASKED_ADJUSTMENT;
        let rounded = Rounded { is_negative, exponent, aligned, is_inexact };
        return adjusted(rounded, format, context, destination);
    }
    if is_inexact {
        context.raise(Exceptions::PRECISION);
    }
    Parts { is_negative, biased: exponent + format.bias, significand: aligned }
}

struct Rounded {
    is_negative: bool,
    exponent: i32,
    aligned: u64,
    is_inexact: bool,
}

fn overflow(
    rounded: Rounded,
    format: Format,
    destination: Destination,
    context: &mut Context,
) -> Parts {
    context.raise(Exceptions::OVERFLOW);
    if !context.masks(Exceptions::OVERFLOW) {
        let exponent = rounded.exponent - UNMASKED_ADJUSTMENT;
        return adjusted(Rounded { exponent, ..rounded }, format, context, destination);
    }
    too_large(rounded.is_negative, format, context)
}

/// The masked response to overflow: infinity or the largest finite number.
fn too_large(is_negative: bool, format: Format, context: &mut Context) -> Parts {
    context.raise(Exceptions::PRECISION);
    let is_infinite = match context.rounding {
        Rounding::Nearest => true,
        Rounding::Down => is_negative,
        Rounding::Up => !is_negative,
        Rounding::Zero => false,
    };
    context.is_rounded_up = is_infinite;
    if is_infinite {
        return Parts::infinity(is_negative, format);
    }
    let significand = u64::MAX << (64 - format.precision);
    Parts { is_negative, biased: format.special_exponent() - 1, significand }
}

/// The masked response to a tiny result: rounded again at the smallest exponent's last place.
fn denormalize(exact: Exact, format: Format, context: &mut Context) -> Parts {
    let Exact { is_negative, significand, .. } = exact;
    if context.flush_to_zero {
        context.raise(Exceptions::UNDERFLOW | Exceptions::PRECISION);
        return Parts::zero(is_negative);
    }
    let distance = format.min_exponent().saturating_sub(exact.exponent) as u32;
    let shifted = shift_right_sticky(significand, distance);
    let drop = 128 - format.precision;
    let (kept, is_inexact, is_up) = round_at(shifted, drop, is_negative, context.rounding);
    context.is_rounded_up = is_up;
    if is_inexact {
        context.raise(Exceptions::UNDERFLOW | Exceptions::PRECISION);
    }
    let significand = (kept as u64) << (64 - format.precision);
    Parts { is_negative, biased: (significand >> 63) as i32, significand }
}

fn adjusted(
    rounded: Rounded,
    format: Format,
    context: &mut Context,
    destination: Destination,
) -> Parts {
    let Rounded { is_negative, exponent, aligned, is_inexact } = rounded;
    if destination == Destination::Memory {
        context.is_rounded_up = false;
        return Parts::zero(is_negative);
    }
    if is_inexact {
        context.raise(Exceptions::PRECISION);
    }
    if destination == Destination::Lane {
        return Parts::zero(is_negative);
    }
    // Only FSCALE gets so far that the adjustment does not bring the result back into range. Then
    // it is infinity or zero under every rounding control.
    if exponent > format.max_exponent() {
        context.raise(Exceptions::PRECISION);
        context.is_rounded_up = true;
        return Parts::infinity(is_negative, format);
    }
    if exponent < format.min_exponent() {
        context.raise(Exceptions::PRECISION);
        context.is_rounded_up = false;
        return Parts::zero(is_negative);
    }
    Parts { is_negative, biased: exponent + format.bias, significand: aligned }
}

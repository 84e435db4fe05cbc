//! What FLD, FST, FIST, FISTTP, FILD, FBLD and FBSTP convert.

use super::{Extended, nan_of_one};
use crate::float::convert::integer_magnitude;
use crate::float::exact::{Kind, QUIET, Unpacked};
use crate::float::round::{Destination, Parts, round};
use crate::float::scalar::Interchange;
use crate::float::{Context, Exceptions, Rounding};

/// A memory operand of a shorter format, as an arithmetic instruction reads it.
pub fn operand<B: Interchange>(bits: B) -> Unpacked {
    let fraction = bits.magnitude() & ((1 << (B::FORMAT.precision - 1)) - 1);
    Unpacked::from_fields(bits.is_negative(), bits.biased(), fraction, B::FORMAT)
}

/// FLD m32 and m64: unlike FLD m80 they look at the value.
pub fn load<B: Interchange>(bits: B, context: &mut Context) -> Extended {
    context.is_rounded_up = false;
    let value = operand(bits);
    if let Some(nan) = nan_of_one(&value, context) {
        return nan;
    }
    context.stops_at_denormal(value.is_denormal);
    Extended::from_unpacked(value)
}

/// FST m32 and m64. Nothing is to be stored if invalid, overflow or underflow is unmasked.
pub fn store<B: Interchange>(value: Extended, context: &mut Context) -> B {
    context.is_rounded_up = false;
    let x = value.unpack();
    B::pack(match x.kind {
        Kind::Zero => Parts::zero(x.is_negative),
        Kind::Infinity => Parts::infinity(x.is_negative, B::FORMAT),
        Kind::Finite => round(x.exact(), B::FORMAT, Destination::Memory, context),
        Kind::Quiet => Parts::nan(x.is_negative, x.significand, B::FORMAT),
        Kind::Signaling => {
            context.raise(Exceptions::INVALID);
            Parts::nan(x.is_negative, x.significand | QUIET, B::FORMAT)
        }
        Kind::Unsupported => {
            context.raise(Exceptions::INVALID);
            Parts::indefinite(B::FORMAT)
        }
    })
}

/// FIST (with the context's rounding) and FISTTP (toward zero) to an integer of `bits` bits.
pub fn store_integer(value: Extended, bits: u32, rounding: Rounding, context: &mut Context) -> i64 {
    context.is_rounded_up = false;
    let x = value.unpack();
    let integer = match x.kind {
        Kind::Zero => return 0,
        Kind::Finite => integer_magnitude(x.exact(), bits, rounding),
        _ => None,
    };
    let Some((integer, is_inexact, is_up)) = integer else {
        context.raise(Exceptions::INVALID);
        return i64::MIN >> (64 - bits);
    };
    if is_inexact {
        context.raise(Exceptions::PRECISION);
        context.is_rounded_up = is_up;
    }
    integer
}

/// The digits of a packed BCD operand.
const DIGITS: u32 = 18;

/// FBLD. Nibbles above nine are undefined; they count as what they are.
pub fn load_decimal(bytes: [u8; 10]) -> Extended {
    let magnitude = bytes[..9]
        .iter()
        .rev()
        .fold(0i64, |sum, pair| sum * 100 + i64::from(pair >> 4) * 10 + i64::from(pair & 15));
    let is_negative = bytes[9] & 0x80 != 0;
    let value = Unpacked { is_negative, ..Unpacked::from_integer(magnitude) };
    Extended::from_unpacked(value)
}

/// The packed BCD indefinite.
pub const DECIMAL_INDEFINITE: [u8; 10] = [0, 0, 0, 0, 0, 0, 0, 0xC0, 0xFF, 0xFF];

/// FBSTP. What needs more than 18 digits is the indefinite.
pub fn store_decimal(value: Extended, context: &mut Context) -> [u8; 10] {
    context.is_rounded_up = false;
    let x = value.unpack();
    let (magnitude, is_inexact, is_up) = match x.kind {
        Kind::Zero => (0, false, false),
        Kind::Finite => x.exact().to_integer(context.rounding),
        _ => (u128::MAX, false, false),
    };
    if magnitude >= 10u128.pow(DIGITS) {
        context.raise(Exceptions::INVALID);
        return DECIMAL_INDEFINITE;
    }
    if is_inexact {
        context.raise(Exceptions::PRECISION);
        context.is_rounded_up = is_up;
    }
    let mut magnitude = magnitude as u64;
    let mut bytes = [0; 10];
    for byte in &mut bytes[..9] {
        *byte = ((magnitude % 10) | ((magnitude / 10 % 10) << 4)) as u8;
        magnitude /= 100;
    }
    bytes[9] = if value.is_negative() { 0x80 } else { 0 };
    bytes
}

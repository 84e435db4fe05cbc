//! The 80-bit extended format and its operations, as the x87 instructions define them.
//!
//! Operations take [`Unpacked`] operands, because an operand read from memory in a shorter format
//! keeps its denormality and its signaling NaN until the operation looks at it.
//!
//! A result is only to be stored if no exception that [`Context::unmasked`] reports forbids it:
//! pre-computation exceptions leave the registers alone; overflow and underflow do so only for
//! destinations in memory.

pub mod arithmetic;
pub mod compare;
pub mod constant;
pub mod remainder;
mod series;
pub mod store;
pub mod transcendental;
mod trigonometric;

use super::exact::{INDEFINITE, Kind, QUIET, Unpacked};
use super::round::Parts;
use super::{Context, Exceptions, Format};
use serde::{Deserialize, Serialize};

/// A bit pattern of the 80-bit format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Extended {
    /// The integer bit and 63 fraction bits.
    pub significand: u64,
    /// Bit 15: sign. Bits 14:0: exponent, biased by 16383.
    pub sign_exponent: u16,
}

/// What FXAM reports in C3, C2 and C0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// An encoding that the 387 and later refuse.
    Unsupported,
    /// Quiet or signaling.
    Nan,
    /// Finite, with the integer bit set.
    Normal,
    /// Of either sign.
    Infinity,
    /// Of either sign.
    Zero,
    /// Denormal or pseudo-denormal.
    Denormal,
}

const SIGN: u16 = 1 << 15;
const SPECIAL: u16 = 0x7FFF;
const INTEGER: u64 = 1 << 63;

impl Extended {
    /// +0.
    pub const ZERO: Extended = Extended { significand: 0, sign_exponent: 0 };
    /// +1.
    pub const ONE: Extended = Extended { significand: INTEGER, sign_exponent: 0x3FFF };
    /// The default NaN of masked invalid operations.
    pub const INDEFINITE: Extended = Extended { significand: INDEFINITE, sign_exponent: 0xFFFF };

    /// From the ten bytes in memory, significand first.
    pub fn from_bytes(bytes: [u8; 10]) -> Extended {
        let [a, b, c, d, e, f, g, h, low, high] = bytes;
        Extended {
            significand: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            sign_exponent: u16::from_le_bytes([low, high]),
        }
    }

    /// The ten bytes as FSTP m80 writes them.
    pub fn to_bytes(self) -> [u8; 10] {
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&self.significand.to_le_bytes());
        bytes[8..].copy_from_slice(&self.sign_exponent.to_le_bytes());
        bytes
    }

    /// The sign bit, NaNs included.
    pub fn is_negative(self) -> bool {
        self.sign_exponent & SIGN != 0
    }

    /// FABS and FCHS act on the sign bit alone, NaNs included.
    pub fn absolute(self) -> Extended {
        Extended { sign_exponent: self.sign_exponent & !SIGN, ..self }
    }

    /// FCHS: the other sign, NaNs included.
    pub fn negated(self) -> Extended {
        Extended { sign_exponent: self.sign_exponent ^ SIGN, ..self }
    }

    /// [SDM1 "Unsupported Double Extended-Precision Floating-Point Encodings"]: a non-zero
    /// exponent needs the integer bit. A zero exponent with it, a pseudo-denormal, is accepted.
    pub fn unpack(self) -> Unpacked {
        let Extended { significand, sign_exponent } = self;
        let biased = sign_exponent & SPECIAL;
        let with = |kind, exponent, significand, is_denormal| Unpacked {
            is_negative: self.is_negative(),
            kind,
            exponent,
            significand,
            is_denormal,
        };
        match biased {
            0 if significand == 0 => Unpacked::zero(self.is_negative()),
            0 => {
                let shift = significand.leading_zeros();
                let exponent = Format::EXTENDED.min_exponent() - shift as i32;
                with(Kind::Finite, exponent, significand << shift, true)
            }
            _ if significand & INTEGER == 0 => with(Kind::Unsupported, 0, significand, false),
            SPECIAL if significand == INTEGER => with(Kind::Infinity, 0, significand, false),
            SPECIAL if significand & QUIET != 0 => with(Kind::Quiet, 0, significand, false),
            SPECIAL => with(Kind::Signaling, 0, significand, false),
            _ => with(Kind::Finite, i32::from(biased) - Format::EXTENDED.bias, significand, false),
        }
    }

    /// The encoding of rounded fields.
    pub fn pack(parts: Parts) -> Extended {
        let sign = if parts.is_negative { SIGN } else { 0 };
        Extended { significand: parts.significand, sign_exponent: sign | parts.biased as u16 }
    }

    /// Infinity of either sign.
    pub fn infinity(is_negative: bool) -> Extended {
        Extended::pack(Parts::infinity(is_negative, Format::EXTENDED))
    }

    /// Zero of either sign.
    pub fn zero(is_negative: bool) -> Extended {
        Extended::pack(Parts::zero(is_negative))
    }

    /// What FXAM says of the encoding.
    pub fn class(self) -> Class {
        let unpacked = self.unpack();
        match unpacked.kind {
            Kind::Zero => Class::Zero,
            Kind::Finite if unpacked.is_denormal => Class::Denormal,
            Kind::Finite => Class::Normal,
            Kind::Infinity => Class::Infinity,
            Kind::Quiet | Kind::Signaling => Class::Nan,
            Kind::Unsupported => Class::Unsupported,
        }
    }

    /// Any finite operand whose value the format holds exactly: integers of 64 bits, and values of
    /// the shorter formats.
    pub fn from_unpacked(value: Unpacked) -> Extended {
        let Unpacked { is_negative, exponent, significand, .. } = value;
        match value.kind {
            Kind::Zero => Extended::zero(is_negative),
            Kind::Infinity => Extended::infinity(is_negative),
            Kind::Finite => {
                let biased = exponent + Format::EXTENDED.bias;
                Extended::pack(Parts { is_negative, biased, significand })
            }
            _ => nan(is_negative, significand),
        }
    }
}

fn nan(is_negative: bool, significand: u64) -> Extended {
    Extended::pack(Parts::nan(is_negative, significand, Format::EXTENDED))
}

/// The result of an operation with a NaN or unsupported operand, if it has one.
pub(crate) fn nan_of_one(a: &Unpacked, context: &mut Context) -> Option<Extended> {
    match a.kind {
        Kind::Unsupported => {
            context.raise(Exceptions::INVALID);
            Some(Extended::INDEFINITE)
        }
        Kind::Signaling => {
            context.raise(Exceptions::INVALID);
            Some(nan(a.is_negative, a.significand | QUIET))
        }
        Kind::Quiet => Some(nan(a.is_negative, a.significand)),
        _ => None,
    }
}

/// The same for two operands [SDM1 "Rules for Handling NaNs"]: a quiet NaN before a signaling
/// one, the larger significand of two of a kind, the positive one of two equal significands.
pub(crate) fn nan_of_two(a: &Unpacked, b: &Unpacked, context: &mut Context) -> Option<Extended> {
    context.is_rounded_up = false;
    let is_any = |kind| a.kind == kind || b.kind == kind;
    if is_any(Kind::Unsupported) {
        context.raise(Exceptions::INVALID);
        return Some(Extended::INDEFINITE);
    }
    if is_any(Kind::Signaling) {
        context.raise(Exceptions::INVALID);
    }
    let key = |x: &Unpacked| (x.significand, !x.is_negative);
    let nan_operand = match (a.is_nan(), b.is_nan()) {
        (false, false) => return None,
        (true, false) => a,
        (false, true) => b,
        _ if a.kind != b.kind => {
            if a.kind == Kind::Quiet {
                a
            } else {
                b
            }
        }
        _ if key(a) >= key(b) => a,
        _ => b,
    };
    Some(nan(nan_operand.is_negative, nan_operand.significand | QUIET))
}

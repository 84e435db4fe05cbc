//! Unpacked operands and exact results: what an operation knows before it rounds.

use super::{Format, Rounding};

/// What kind of value an encoding stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Zero,
    Finite,
    Infinity,
    Quiet,
    Signaling,
    /// An 80-bit encoding that the 387 and later refuse: unnormals, pseudo-infinities, pseudo-NaNs.
    Unsupported,
}

/// An operand of any format. The significand has its integer bit in bit 63 (NaNs too, so that a
/// payload moves between formats by a shift); the value is `significand * 2^(exponent - 63)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// The sign, of zeros, infinities and NaNs too.
    pub is_negative: bool,
    /// What the other fields mean.
    pub kind: Kind,
    /// Of bit 63 of the significand; zero for what is not finite.
    pub exponent: i32,
    /// Normalized: bit 63 is set unless the value is zero.
    pub significand: u64,
    /// The encoding was denormal (or pseudo-denormal), which the denormal exception reports.
    pub is_denormal: bool,
}

/// A non-zero real: `significand * 2^(exponent - 127)`, bit 127 set, bit 0 sticky: it stands for
/// any non-zero remainder below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact {
    pub is_negative: bool,
    pub exponent: i32,
    pub significand: u128,
}

/// The result of an operation on operands that are not NaN, before rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Zero { is_negative: bool },
    Finite(Exact),
    Infinity { is_negative: bool },
    DivideByZero { is_negative: bool },
    Invalid,
}

/// Set in every quiet NaN's significand.
pub const QUIET: u64 = 1 << 62;
/// The significand of the default NaN ("real indefinite"), whose sign is negative.
pub const INDEFINITE: u64 = 3 << 62;

impl Unpacked {
    /// A zero of either sign.
    pub const fn zero(is_negative: bool) -> Unpacked {
        let kind = Kind::Zero;
        Unpacked { is_negative, kind, exponent: 0, significand: 0, is_denormal: false }
    }

    /// Unpacks fields of a format with a hidden integer bit (binary32, binary64).
    #[inline]
    pub fn from_fields(is_negative: bool, biased: i32, fraction: u64, format: Format) -> Unpacked {
        const INTEGER: u64 = 1 << 63;
        let aligned = fraction << (64 - format.precision);
        let with = |kind, exponent, significand| Unpacked {
            is_negative,
            kind,
            exponent,
            significand,
            is_denormal: false,
        };
        if biased == format.special_exponent() {
            match aligned {
                0 => with(Kind::Infinity, 0, INTEGER),
                _ if aligned & QUIET != 0 => with(Kind::Quiet, 0, aligned | INTEGER),
                _ => with(Kind::Signaling, 0, aligned | INTEGER),
            }
        } else if biased != 0 {
            with(Kind::Finite, biased - format.bias, aligned | INTEGER)
        } else if fraction == 0 {
            Unpacked::zero(is_negative)
        } else {
            let shift = aligned.leading_zeros();
            let exponent = format.min_exponent() - shift as i32;
            let is_denormal = true;
            Unpacked { is_denormal, ..with(Kind::Finite, exponent, aligned << shift) }
        }
    }

    /// The integer's exact value.
    pub fn from_integer(value: i64) -> Unpacked {
        let magnitude = value.unsigned_abs();
        if magnitude == 0 {
            return Unpacked::zero(false);
        }
        let shift = magnitude.leading_zeros();
        Unpacked {
            is_negative: value < 0,
            kind: Kind::Finite,
            exponent: 63 - shift as i32,
            significand: magnitude << shift,
            is_denormal: false,
        }
    }

    /// Quiet or signaling.
    pub fn is_nan(&self) -> bool {
        matches!(self.kind, Kind::Quiet | Kind::Signaling)
    }

    /// A zero of either sign.
    pub fn is_zero(&self) -> bool {
        self.kind == Kind::Zero
    }

    /// An infinity of either sign.
    pub fn is_infinite(&self) -> bool {
        self.kind == Kind::Infinity
    }

    /// The value of a finite operand.
    pub fn exact(&self) -> Exact {
        Exact {
            is_negative: self.is_negative,
            exponent: self.exponent,
            significand: u128::from(self.significand) << 64,
        }
    }

    /// The same operand with the other sign; a NaN keeps its own.
    pub fn negated(self) -> Unpacked {
        Unpacked { is_negative: self.is_negative ^ !self.is_nan(), ..self }
    }

    fn outcome(&self) -> Outcome {
        let is_negative = self.is_negative;
        match self.kind {
            Kind::Zero => Outcome::Zero { is_negative },
            Kind::Finite => Outcome::Finite(self.exact()),
            Kind::Infinity => Outcome::Infinity { is_negative },
            _ => Outcome::Invalid,
        }
    }
}

/// Shifts right; any bit shifted out leaves the lowest bit set.
pub fn shift_right_sticky(value: u128, count: u32) -> u128 {
    match count {
        0 => value,
        1..=127 => value >> count | u128::from(value << (128 - count) != 0),
        _ => u128::from(value != 0),
    }
}

impl Exact {
    pub const fn one() -> Exact {
        Exact { is_negative: false, exponent: 0, significand: 1 << 127 }
    }

    /// A non-zero `magnitude * 2^exponent`; `None` for zero.
    pub fn normalized(is_negative: bool, exponent: i32, magnitude: u128) -> Option<Exact> {
        let shift = magnitude.leading_zeros();
        (magnitude != 0).then(|| Exact {
            is_negative,
            exponent: exponent + 127 - shift as i32,
            significand: magnitude << shift,
        })
    }

    pub fn negated(self) -> Exact {
        Exact { is_negative: !self.is_negative, ..self }
    }

    /// Exact for operands of at most 64 bits, else correct to the sticky bit.
    pub fn plus(self, other: Exact) -> Option<Exact> {
        let is_larger = (self.exponent, self.significand) >= (other.exponent, other.significand);
        let (large, small) = if is_larger { (self, other) } else { (other, self) };
        let distance = large.exponent.saturating_sub(small.exponent) as u32;
        let high = shift_right_sticky(large.significand, 1);
        let low = shift_right_sticky(small.significand, distance.saturating_add(1));
        let magnitude =
            if large.is_negative == small.is_negative { high + low } else { high - low };
        Exact::normalized(large.is_negative, large.exponent - 126, magnitude)
    }

    pub fn multiply(self, other: Exact) -> Exact {
        let is_negative = self.is_negative != other.is_negative;
        let product = multiply_sticky(self.significand, other.significand);
        let carry = (product >> 127) as i32;
        let significand = if carry == 0 { product << 1 } else { product };
        Exact { is_negative, exponent: self.exponent + other.exponent + carry, significand }
    }

    pub fn divide(self, other: Exact) -> Exact {
        let is_negative = self.is_negative != other.is_negative;
        let borrow = self.significand < other.significand;
        let exponent = self.exponent - other.exponent - i32::from(borrow);
        let (quotient, is_inexact) = divide(self.significand, other.significand);
        Exact { is_negative, exponent, significand: quotient | u128::from(is_inexact) }
    }

    /// The square root of a positive number of at most 64 bits.
    pub fn square_root(self) -> Exact {
        let odd = self.exponent & 1;
        // An even exponent leaves 1.x, an odd one 2.x to 4: the root is 64 bits with its top set.
        let radicand = self.significand >> (1 - odd);
        let root = radicand.isqrt();
        let rest = radicand - root * root;
        let next = u128::from(rest > root);
        let significand = root << 64 | next << 63 | u128::from(rest != 0);
        Exact { is_negative: false, exponent: (self.exponent - odd) / 2, significand }
    }

    /// Rounds to an integer: its magnitude (saturated), whether it was inexact and went up.
    pub fn to_integer(self, rounding: Rounding) -> (u128, bool, bool) {
        if self.exponent > 126 {
            return (u128::MAX, false, false);
        }
        let drop = (127 - self.exponent) as u32;
        let excess = drop.saturating_sub(126);
        let significand = shift_right_sticky(self.significand, excess);
        round_at(significand, drop - excess, self.is_negative, rounding)
    }
}

/// Drops `drop` (1 to 127) low bits: the rounded value, whether it was inexact and went up.
pub fn round_at(
    significand: u128,
    drop: u32,
    is_negative: bool,
    rounding: Rounding,
) -> (u128, bool, bool) {
    let kept = significand >> drop;
    let rest = significand & ((1 << drop) - 1);
    let half = 1 << (drop - 1);
    let is_up = match rounding {
        Rounding::Nearest => rest > half || rest == half && kept & 1 == 1,
        Rounding::Down => is_negative && rest != 0,
        Rounding::Up => !is_negative && rest != 0,
        Rounding::Zero => false,
    };
    (kept + u128::from(is_up), rest != 0, is_up)
}

/// The upper half of the 256-bit product.
pub fn multiply_high(a: u128, b: u128) -> u128 {
    wide_product(a, b).0
}

fn multiply_sticky(a: u128, b: u128) -> u128 {
    if (a | b) as u64 == 0 {
        return (a >> 64) * (b >> 64);
    }
    let (high, low) = wide_product(a, b);
    high | u128::from(low != 0)
}

fn wide_product(a: u128, b: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let (a1, a0, b1, b0) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let low = a0 * b0;
    let middle = a1 * b0 + (low >> 64);
    let cross = a0 * b1 + (middle & LOW);
    (a1 * b1 + (middle >> 64) + (cross >> 64), cross << 64 | low & LOW)
}

/// Divides significands: the quotient scaled so that its top bit is set, and whether more follows.
fn divide(a: u128, b: u128) -> (u128, bool) {
    if (a | b) as u64 == 0 {
        let divisor = b >> 64;
        let dividend = if a < b { a } else { a >> 1 };
        let (high, rest) = (dividend / divisor, dividend % divisor);
        let (low, rest) = ((rest << 64) / divisor, (rest << 64) % divisor);
        return (high << 64 | low, rest != 0);
    }
    let mut quotient = u128::from(a >= b);
    let mut rest = if a >= b { a - b } else { a };
    while quotient >> 127 == 0 {
        let carry = rest >> 127 != 0;
        rest <<= 1;
        quotient <<= 1;
        if carry || rest >= b {
            rest = rest.wrapping_sub(b);
            quotient |= 1;
        }
    }
    (quotient, rest != 0)
}

pub fn add(a: &Unpacked, b: &Unpacked, rounding: Rounding) -> Outcome {
    match (a.kind, b.kind) {
        (Kind::Infinity, Kind::Infinity) if a.is_negative != b.is_negative => Outcome::Invalid,
        (Kind::Infinity, _) => a.outcome(),
        (_, Kind::Infinity) => b.outcome(),
        (Kind::Zero, Kind::Zero) if a.is_negative == b.is_negative => a.outcome(),
        (Kind::Zero, Kind::Finite) => b.outcome(),
        (Kind::Finite, Kind::Zero) => a.outcome(),
        (Kind::Finite, Kind::Finite) => match a.exact().plus(b.exact()) {
            Some(sum) => Outcome::Finite(sum),
            None => Outcome::Zero { is_negative: rounding == Rounding::Down },
        },
        _ => Outcome::Zero { is_negative: rounding == Rounding::Down },
    }
}

pub fn subtract(a: &Unpacked, b: &Unpacked, rounding: Rounding) -> Outcome {
    add(a, &b.negated(), rounding)
}

pub fn multiply(a: &Unpacked, b: &Unpacked, _: Rounding) -> Outcome {
    let is_negative = a.is_negative != b.is_negative;
    match (a.kind, b.kind) {
        (Kind::Infinity, Kind::Zero) | (Kind::Zero, Kind::Infinity) => Outcome::Invalid,
        (Kind::Infinity, _) | (_, Kind::Infinity) => Outcome::Infinity { is_negative },
        (Kind::Zero, _) | (_, Kind::Zero) => Outcome::Zero { is_negative },
        _ => Outcome::Finite(a.exact().multiply(b.exact())),
    }
}

pub fn divide_by(a: &Unpacked, b: &Unpacked, _: Rounding) -> Outcome {
    let is_negative = a.is_negative != b.is_negative;
    match (a.kind, b.kind) {
        (Kind::Infinity, Kind::Infinity) | (Kind::Zero, Kind::Zero) => Outcome::Invalid,
        (Kind::Infinity, _) => Outcome::Infinity { is_negative },
        (Kind::Zero, _) | (_, Kind::Infinity) => Outcome::Zero { is_negative },
        (_, Kind::Zero) => Outcome::DivideByZero { is_negative },
        _ => Outcome::Finite(a.exact().divide(b.exact())),
    }
}

pub fn square_root(a: &Unpacked) -> Outcome {
    match a.kind {
        Kind::Zero => a.outcome(),
        _ if a.is_negative => Outcome::Invalid,
        Kind::Finite => Outcome::Finite(a.exact().square_root()),
        _ => a.outcome(),
    }
}

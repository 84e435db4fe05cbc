//! SSE arithmetic on one binary32 or binary64 lane [SDM1 "SIMD Floating-Point Exceptions"].
//!
//! The operands are bit patterns (`u32`, `u64`). NaNs follow the SSE rule: the first operand if it
//! is a NaN, else the second, made quiet.

use super::exact::{self, Kind, Outcome, QUIET, Unpacked};
use super::round::{Destination, Parts, deliver};
use super::{Context, Exceptions, Format, Rounding};

/// A bit pattern of binary32 (`u32`) or binary64 (`u64`).
pub trait Interchange: Copy + PartialEq + Into<u64> {
    /// Precision and bias of the encoding.
    const FORMAT: Format;
    /// Bits of the encoding below the sign.
    const MAGNITUDE_BITS: u32;

    /// The low bits as an encoding.
    fn truncated(bits: u64) -> Self;
    /// What the host's own arithmetic gives, in its default rounding.
    fn host(self, other: Self, operation: Operation) -> Self;
    /// The host's square root.
    fn host_square_root(self) -> Self;

    /// The sign bit, NaNs included.
    #[inline]
    fn is_negative(self) -> bool {
        self.into() >> Self::MAGNITUDE_BITS != 0
    }

    /// The exponent field.
    #[inline]
    fn biased(self) -> i32 {
        (self.magnitude() >> (Self::FORMAT.precision - 1)) as i32
    }

    /// All bits but the sign.
    #[inline]
    fn magnitude(self) -> u64 {
        self.into() & ((1 << Self::MAGNITUDE_BITS) - 1)
    }

    /// Quiet or signaling.
    #[inline]
    fn is_nan(self) -> bool {
        self.magnitude() > Self::INFINITY_MAGNITUDE
    }

    /// The encoding of infinity without its sign; NaNs are above it.
    const INFINITY_MAGNITUDE: u64 = ((1 << (Self::MAGNITUDE_BITS + 1 - Self::FORMAT.precision))
        - 1)
        << (Self::FORMAT.precision - 1);

    /// Neither denormal, infinite nor NaN: exponent fields 1 to the last but one, or zero.
    #[inline]
    fn is_ordinary(self) -> bool {
        self.magnitude() == 0 || self.is_normal()
    }

    /// Neither zero, denormal, infinite nor NaN.
    #[inline]
    fn is_normal(self) -> bool {
        (self.biased() as u32).wrapping_sub(1) < Self::FORMAT.special_exponent() as u32 - 1
    }

    /// Far enough from underflow that rounding cannot have hidden one.
    #[inline]
    fn is_safely_normal(self) -> bool {
        (self.biased() as u32).wrapping_sub(2) < Self::FORMAT.special_exponent() as u32 - 2
    }

    /// The value as an operation sees it: denormals are zeros where the context says so.
    #[inline]
    fn unpack(self, context: &Context) -> Unpacked {
        let fraction = self.magnitude() & ((1 << (Self::FORMAT.precision - 1)) - 1);
        let (is_negative, biased) = (self.is_negative(), self.biased());
        if context.denormals_are_zero && biased == 0 {
            return Unpacked::zero(is_negative);
        }
        Unpacked::from_fields(is_negative, biased, fraction, Self::FORMAT)
    }

    /// The encoding of rounded fields.
    #[inline]
    fn pack(parts: Parts) -> Self {
        let fraction = parts.significand << 1 >> (65 - Self::FORMAT.precision);
        let biased = (parts.biased as u64) << (Self::FORMAT.precision - 1);
        Self::truncated(u64::from(parts.is_negative) << Self::MAGNITUDE_BITS | biased | fraction)
    }

    /// Denormal operands read as zeros where the context says so.
    #[inline]
    fn flushed(self, context: &Context) -> Self {
        if context.denormals_are_zero && self.biased() == 0 {
            return Self::pack(Parts::zero(self.is_negative()));
        }
        self
    }

    /// The default NaN of masked invalid operations.
    fn indefinite() -> Self {
        Self::pack(Parts::indefinite(Self::FORMAT))
    }
}

/// The operations that the host may do on ordinary operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// ADDSS and the like.
    Add,
    /// SUBSS and the like.
    Subtract,
    /// MULSS and the like.
    Multiply,
    /// DIVSS and the like.
    Divide,
}

macro_rules! interchange {
    ($bits:ty, $float:ty, $format:expr) => {
        impl Interchange for $bits {
            const FORMAT: Format = $format;
            const MAGNITUDE_BITS: u32 = <$bits>::BITS - 1;

            #[inline]
            fn truncated(bits: u64) -> Self {
                bits as $bits
            }

            #[inline]
            fn host(self, other: Self, operation: Operation) -> Self {
                let (a, b) = (<$float>::from_bits(self), <$float>::from_bits(other));
                match operation {
                    Operation::Add => a + b,
                    Operation::Subtract => a - b,
                    Operation::Multiply => a * b,
                    Operation::Divide => a / b,
                }
                .to_bits()
            }

            #[inline]
            fn host_square_root(self) -> Self {
                <$float>::from_bits(self).sqrt().to_bits()
            }
        }
    };
}

interchange!(u32, f32, Format::SINGLE);
interchange!(u64, f64, Format::DOUBLE);

/// The NaN that a one-operand operation returns, raising what it raises.
pub fn quieted(a: Unpacked, format: Format, context: &mut Context) -> Parts {
    if a.kind == Kind::Signaling {
        context.raise(Exceptions::INVALID);
    }
    Parts::nan(a.is_negative, a.significand | QUIET, format)
}

/// The first operand's NaN, else the second's, if there is one.
fn nan_of<B: Interchange>(a: &Unpacked, b: &Unpacked, context: &mut Context) -> Option<B> {
    if !a.is_nan() && !b.is_nan() {
        return None;
    }
    if a.kind == Kind::Signaling || b.kind == Kind::Signaling {
        context.raise(Exceptions::INVALID);
    }
    let nan = if a.is_nan() { a } else { b };
    Some(B::pack(Parts::nan(nan.is_negative, nan.significand | QUIET, B::FORMAT)))
}

#[cold]
#[inline(never)]
fn binary<B: Interchange>(
    a: B,
    b: B,
    context: &mut Context,
    operation: fn(&Unpacked, &Unpacked, Rounding) -> Outcome,
) -> B {
    let (x, y) = (a.unpack(context), b.unpack(context));
    if let Some(nan) = nan_of(&x, &y, context) {
        return nan;
    }
    let outcome = operation(&x, &y, context.rounding);
    let has_denormal = x.is_denormal || y.is_denormal;
    B::pack(deliver(outcome, has_denormal, B::FORMAT, Destination::Lane, context))
}

/// ADDSS or ADDSD.
#[inline]
pub fn add<B: Interchange>(a: B, b: B, context: &mut Context) -> B {
    if context.is_fast && a.is_ordinary() && b.is_ordinary() {
        let sum = a.host(b, Operation::Add);
        if sum.is_safely_normal() || sum.magnitude() == 0 {
            return sum;
        }
    }
    binary(a, b, context, exact::add)
}

/// SUBSS or SUBSD.
#[inline]
pub fn subtract<B: Interchange>(a: B, b: B, context: &mut Context) -> B {
    if context.is_fast && a.is_ordinary() && b.is_ordinary() {
        let difference = a.host(b, Operation::Subtract);
        if difference.is_safely_normal() || difference.magnitude() == 0 {
            return difference;
        }
    }
    binary(a, b, context, exact::subtract)
}

/// MULSS or MULSD.
#[inline]
pub fn multiply<B: Interchange>(a: B, b: B, context: &mut Context) -> B {
    if context.is_fast && a.is_ordinary() && b.is_ordinary() {
        let product = a.host(b, Operation::Multiply);
        if product.is_safely_normal() || a.magnitude() == 0 || b.magnitude() == 0 {
            return product;
        }
    }
    binary(a, b, context, exact::multiply)
}

/// DIVSS or DIVSD.
#[inline]
pub fn divide<B: Interchange>(a: B, b: B, context: &mut Context) -> B {
    if context.is_fast && a.is_ordinary() && b.is_normal() {
        let quotient = a.host(b, Operation::Divide);
        if quotient.is_safely_normal() || a.magnitude() == 0 {
            return quotient;
        }
    }
    binary(a, b, context, exact::divide_by)
}

/// SQRTSS or SQRTSD.
#[inline]
pub fn square_root<B: Interchange>(a: B, context: &mut Context) -> B {
    if context.is_fast && a.is_normal() && !a.is_negative() {
        return a.host_square_root();
    }
    let x = a.unpack(context);
    if x.is_nan() {
        return B::pack(quieted(x, B::FORMAT, context));
    }
    let outcome = exact::square_root(&x);
    B::pack(deliver(outcome, x.is_denormal, B::FORMAT, Destination::Lane, context))
}

/// ROUNDPS, ROUNDPD and the scalar forms: to an integral value, in the same format. The immediate
/// selects the rounding or MXCSR's, and may hide the precision exception.
pub fn round_to_integral<B: Interchange>(a: B, immediate: u8, context: &mut Context) -> B {
    const USE_MXCSR: u8 = 1 << 2;
    const HIDE_PRECISION: u8 = 1 << 3;
    let rounding = match immediate & USE_MXCSR {
        0 => Rounding::from_bits(u32::from(immediate)),
        _ => context.rounding,
    };
    let x = a.unpack(context);
    if x.is_nan() {
        return B::pack(quieted(x, B::FORMAT, context));
    }
    if x.kind != Kind::Finite || x.exponent >= B::FORMAT.precision as i32 - 1 {
        return a.flushed(context);
    }
    let (magnitude, is_inexact, _) = x.exact().to_integer(rounding);
    if is_inexact && immediate & HIDE_PRECISION == 0 {
        context.raise(Exceptions::PRECISION);
    }
    integral_parts(x.is_negative, magnitude as u64, B::FORMAT).map_or_else(B::indefinite, B::pack)
}

/// A small integer as fields of a format; `None` only for magnitudes the format cannot hold.
pub fn integral_parts(is_negative: bool, magnitude: u64, format: Format) -> Option<Parts> {
    if magnitude == 0 {
        return Some(Parts::zero(is_negative));
    }
    let shift = magnitude.leading_zeros();
    let fits = 64 - shift - magnitude.trailing_zeros() <= format.precision;
    let biased = 63 - shift as i32 + format.bias;
    fits.then(|| Parts { is_negative, biased, significand: magnitude << shift })
}

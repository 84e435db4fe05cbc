//! IEEE 754 arithmetic exactly as x86 processors do it: results, exception flags and C1.
//!
//! Everything is integer arithmetic on significands, so results and flags are the same on every
//! host. The one exception is the fast path of [`scalar`], which uses the host's own `+ - * /` and
//! square root where IEEE 754 fixes the answer and no flag can change.
//!
//! * `exact`: unpacked operands and exact results, before rounding.
//! * `round`: rounding to a format, with the masked and unmasked responses.
//! * [`scalar`], [`compare`], [`convert`], [`reciprocal`]: binary32 and binary64 for SSE.
//! * [`extended`]: the 80-bit format and the x87 operations on it.
//!
//! Specified in [SDM1 "Programming with the x87 FPU"], [SDM1 "Numeric Exceptions"] and
//! [APM1 "SIMD Floating-Point Exceptions"].

pub mod compare;
pub mod convert;
pub(crate) mod exact;
pub mod extended;
pub(crate) mod fused;
pub(crate) mod half;
pub mod reciprocal;
pub(crate) mod round;
pub mod scalar;

#[cfg(test)]
mod tests;

pub use exact::Unpacked;

use bitflags::bitflags;

bitflags! {
    /// The six numeric exceptions, in the bit order that MXCSR and the x87 status word share.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct Exceptions: u8 {
        /// #IA or #IS: no result is defined, a quiet NaN stands for it.
        const INVALID = 1 << 0;
        /// An operand was denormal.
        const DENORMAL = 1 << 1;
        /// A finite number was divided by zero.
        const ZERO_DIVIDE = 1 << 2;
        /// The rounded result is beyond the largest number.
        const OVERFLOW = 1 << 3;
        /// The result is tiny and, where masked, inexact.
        const UNDERFLOW = 1 << 4;
        /// The result was rounded.
        const PRECISION = 1 << 5;
    }
}

impl Exceptions {
    /// Exceptions found by looking at the operands, before anything is computed.
    pub const PRE_COMPUTATION: Exceptions =
        Exceptions::INVALID.union(Exceptions::DENORMAL).union(Exceptions::ZERO_DIVIDE);
}

/// The rounding control field of MXCSR and the x87 control word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest; halves to the even one.
    Nearest,
    /// Towards minus infinity.
    Down,
    /// Towards plus infinity.
    Up,
    /// Towards zero: what does not fit is cut off.
    Zero,
}

impl Rounding {
    /// All modes, in the order of their encodings.
    pub const ALL: [Rounding; 4] =
        [Rounding::Nearest, Rounding::Down, Rounding::Up, Rounding::Zero];

    /// Decodes the two bits of a rounding control field.
    pub fn from_bits(bits: u32) -> Rounding {
        Rounding::ALL[(bits & 3) as usize]
    }
}

/// A binary floating-point format: `precision` counts the integer bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bits of the significand, the integer bit among them.
    pub precision: u32,
    /// What is added to an exponent to give its field; the exponent of the largest numbers.
    pub bias: i32,
}

impl Format {
    /// binary32.
    pub const SINGLE: Format = Format { precision: 24, bias: 127 };
    /// binary64.
    pub const DOUBLE: Format = Format { precision: 53, bias: 1023 };
    /// The 80-bit format of x87.
    pub const EXTENDED: Format = Format { precision: 64, bias: 16383 };

    /// The exponent of the smallest normal numbers, and of denormals.
    pub fn min_exponent(self) -> i32 {
        1 - self.bias
    }

    /// The exponent of the largest finite numbers.
    pub fn max_exponent(self) -> i32 {
        self.bias
    }

    /// The exponent field of infinities and NaNs.
    pub fn special_exponent(self) -> i32 {
        2 * self.bias + 1
    }
}

/// What an operation reads from MXCSR or the x87 control word, and the flags it raises.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Where results go that lie between two numbers.
    pub rounding: Rounding,
    /// Exceptions that do not interrupt the program.
    pub masked: Exceptions,
    /// MXCSR.DAZ: denormal operands count as zeros.
    pub denormals_are_zero: bool,
    /// MXCSR.FTZ: denormal results become zeros, where underflow is masked.
    pub flush_to_zero: bool,
    /// x87 only: the format that precision control selects for add, subtract, multiply, divide
    /// and square root. Its range is always that of the extended format.
    pub precision: Format,
    /// The exceptions of the operation so far.
    pub raised: Exceptions,
    /// What earlier operations of the same instruction raised, all masked.
    settled: Exceptions,
    /// C1: the last rounding increased the magnitude.
    pub is_rounded_up: bool,
    /// The host's arithmetic gives the same result and flags for ordinary operands.
    pub is_fast: bool,
}

impl Context {
    /// The context of an SSE instruction [SDM1 "MXCSR Control and Status Register"].
    #[inline]
    pub fn from_mxcsr(mxcsr: u32) -> Context {
        const ROUNDING_AND_PRECISION: u32 = 0x7020;
        const NEAREST_MASKED_AND_STICKY: u32 = 0x1020;
        Context {
            rounding: Rounding::from_bits(mxcsr >> 13),
            masked: Exceptions::from_bits_truncate((mxcsr >> 7) as u8),
            denormals_are_zero: mxcsr & 1 << 6 != 0,
            flush_to_zero: mxcsr & 1 << 15 != 0,
            precision: Format::EXTENDED,
            raised: Exceptions::empty(),
            settled: Exceptions::empty(),
            is_rounded_up: false,
            is_fast: mxcsr & ROUNDING_AND_PRECISION == NEAREST_MASKED_AND_STICKY,
        }
    }

    /// The context of an x87 instruction [SDM1 "x87 FPU Control Word"].
    pub fn from_control_word(control: u16) -> Context {
        let precision = match control >> 8 & 3 {
            0 => 24,
            2 => 53,
            _ => 64,
        };
        Context {
            rounding: Rounding::from_bits(u32::from(control) >> 10),
            masked: Exceptions::from_bits_truncate(control as u8),
            denormals_are_zero: false,
            flush_to_zero: false,
            precision: Format { precision, ..Format::EXTENDED },
            raised: Exceptions::empty(),
            settled: Exceptions::empty(),
            is_rounded_up: false,
            is_fast: false,
        }
    }

    /// Adds to the exceptions of the operation.
    #[inline]
    pub fn raise(&mut self, exceptions: Exceptions) {
        self.raised |= exceptions;
    }

    /// Whether all of these are masked.
    #[inline]
    pub fn masks(&self, exceptions: Exceptions) -> bool {
        self.masked.contains(exceptions)
    }

    /// The raised exceptions that software asked to be told about.
    #[inline]
    pub fn unmasked(&self) -> Exceptions {
        self.raised - self.masked
    }

    /// The flags an SSE instruction sets: when one found an unmasked exception in the operands of
    /// any lane, nothing was computed, in any lane [SDM1 "Priority Among Simultaneous Exceptions
    /// and Interrupts"].
    #[inline]
    pub fn reported(&self) -> Exceptions {
        if self.unmasked().intersects(Exceptions::PRE_COMPUTATION) {
            return self.settled | self.raised & Exceptions::PRE_COMPUTATION;
        }
        self.settled | self.raised
    }

    /// Ends one operation of an instruction that has several; false if its exceptions end them all.
    #[inline]
    pub(crate) fn settles(&mut self) -> bool {
        let continues = self.unmasked().is_empty();
        if continues {
            self.settled |= std::mem::take(&mut self.raised);
        }
        continues
    }

    /// Raises the denormal-operand exception; true when it is unmasked and ends the operation.
    #[inline]
    pub(crate) fn stops_at_denormal(&mut self, has_denormal: bool) -> bool {
        if has_denormal {
            self.raise(Exceptions::DENORMAL);
        }
        has_denormal && !self.masks(Exceptions::DENORMAL)
    }
}

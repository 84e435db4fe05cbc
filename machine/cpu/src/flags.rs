//! RFLAGS with the six status flags kept as the material from which they follow.
//!
//! Most results are overwritten before a flag is read, so an operation stores its result and its
//! carries and nothing is decided until a flag is read.

use crate::width::Width;
use arch::control::rflags;
use serde::{Deserialize, Serialize};

/// In `carries`: the carry out of the sign bit is CF ...
const CARRY: u64 = 1 << 63;
/// ... the carry into the sign bit, whose difference from CF is OF.
const CARRY_INTO_SIGN: u64 = 1 << 62;
const AUXILIARY: u64 = 1 << 3;
/// SF differs from the result's sign.
const SIGN_DIFFERS: u64 = 1 << 16;
/// Bits 15:8 are added (exclusive or) to the result's low byte before its parity is taken.
const PARITY_SHIFT: u32 = 8;

/// RFLAGS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flags {
    /// The last result, sign-extended: ZF, SF and PF follow from it.
    result: u64,
    carries: u64,
    /// All other flags, in their places.
    pub system: u64,
}

impl Default for Flags {
    fn default() -> Self {
        let mut flags = Self { result: 1 << 8, carries: 0, system: rflags::FIXED };
        flags.set_status(0);
        flags
    }
}

impl Flags {
    /// `carries` is the vector of carries (or borrows) out of each bit.
    #[inline(always)]
    fn set<W: Width>(&mut self, result: W, carries: u64) {
        self.result = result.sign_extend();
        self.carries =
            (carries << (64 - W::BITS)) & (CARRY | CARRY_INTO_SIGN) | carries & AUXILIARY;
    }

    #[inline(always)]
    pub(crate) fn add<W: Width>(&mut self, a: u64, b: u64, result: W) {
        let r = result.zero_extend();
        self.set(result, a & b | (a | b) & !r);
    }

    #[inline(always)]
    pub(crate) fn subtract<W: Width>(&mut self, a: u64, b: u64, result: W) {
        let r = result.zero_extend();
        self.set(result, !a & b | (!a | b) & r);
    }

    /// CF = OF = AF = 0.
    #[inline(always)]
    pub(crate) fn logic<W: Width>(&mut self, result: W) {
        self.result = result.sign_extend();
        self.carries = 0;
    }

    /// As `add` or `subtract` of one, but CF stays.
    #[inline(always)]
    pub(crate) fn keep_carry(&mut self, carry: bool) {
        let overflow = self.carries ^ self.carries << 1;
        let into_sign = (overflow ^ (carry as u64) << 63) >> 1 & CARRY_INTO_SIGN;
        self.carries = self.carries & AUXILIARY | (carry as u64) << 63 | into_sign;
    }

    /// ZF, SF and PF from `result`; CF and OF as given; AF = 0.
    #[inline(always)]
    pub(crate) fn shift<W: Width>(&mut self, result: W, carry: bool, overflow: bool) {
        self.result = result.sign_extend();
        self.carries = (carry as u64) << 63 | ((carry ^ overflow) as u64) << 62;
    }

    #[inline(always)]
    pub(crate) fn carry(&self) -> bool {
        self.carries & CARRY != 0
    }

    #[inline(always)]
    pub(crate) fn overflow(&self) -> bool {
        (self.carries ^ self.carries << 1) & CARRY != 0
    }

    #[inline(always)]
    pub(crate) fn zero(&self) -> bool {
        self.result == 0
    }

    #[inline(always)]
    pub(crate) fn sign(&self) -> bool {
        ((self.result ^ self.carries << 47) as i64) < 0
    }

    #[inline(always)]
    pub(crate) fn parity(&self) -> bool {
        ((self.result ^ self.carries >> PARITY_SHIFT) as u8).count_ones() & 1 == 0
    }

    #[inline(always)]
    pub(crate) fn auxiliary(&self) -> bool {
        self.carries & AUXILIARY != 0
    }

    pub(crate) fn set_carry(&mut self, carry: bool) {
        let overflow = self.overflow();
        self.carries = self.carries & !(CARRY | CARRY_INTO_SIGN)
            | (carry as u64) << 63
            | ((carry ^ overflow) as u64) << 62;
    }

    pub(crate) fn set_carry_overflow(&mut self, carry: bool, overflow: bool) {
        self.carries = self.carries & !(CARRY | CARRY_INTO_SIGN)
            | (carry as u64) << 63
            | ((carry ^ overflow) as u64) << 62;
    }

    pub(crate) fn set_zero(&mut self, zero: bool) {
        let status = self.status() & !rflags::ZF | if zero { rflags::ZF } else { 0 };
        self.set_status(status);
    }

    /// The six status flags, in their places.
    pub(crate) fn status(&self) -> u64 {
        let bit = |on: bool, mask: u64| if on { mask } else { 0 };
        bit(self.carry(), rflags::CF)
            | bit(self.parity(), rflags::PF)
            | bit(self.auxiliary(), rflags::AF)
            | bit(self.zero(), rflags::ZF)
            | bit(self.sign(), rflags::SF)
            | bit(self.overflow(), rflags::OF)
    }

    /// Sets the six status flags from their places in `bits`.
    pub(crate) fn set_status(&mut self, bits: u64) {
        let on = |mask: u64| bits & mask != 0;
        // A result with a low byte of zero has even parity and a clear sign.
        self.result = if on(rflags::ZF) { 0 } else { 1 << 20 };
        self.carries = (on(rflags::CF) as u64) << 63
            | ((on(rflags::CF) ^ on(rflags::OF)) as u64) << 62
            | if on(rflags::AF) { AUXILIARY } else { 0 }
            | if on(rflags::SF) { SIGN_DIFFERS } else { 0 }
            | if on(rflags::PF) { 0 } else { 1 << PARITY_SHIFT };
    }

    /// The whole register.
    pub fn bits(&self) -> u64 {
        self.status() | self.system
    }

    /// Sets the whole register; bit 1 reads one and undefined bits zero.
    pub fn set_bits(&mut self, bits: u64) {
        self.set_status(bits);
        self.system = bits & rflags::ALL & !rflags::STATUS | rflags::FIXED;
    }

    /// Sets the register to `bits` where `mask` has ones. What of the status stays is not computed.
    #[inline]
    pub(crate) fn change(&mut self, bits: u64, mask: u64) {
        match mask & rflags::STATUS {
            0 => {}
            rflags::STATUS => self.set_status(bits),
            some => self.set_status(self.status() & !some | bits & some),
        }
        let system = self.system & !mask | bits & mask;
        self.system = system & rflags::ALL & !rflags::STATUS | rflags::FIXED;
    }

    /// Whether one of these flags is set; none of the six status flags may be among them.
    #[inline(always)]
    pub fn has(&self, system: u64) -> bool {
        self.system & system != 0
    }

    /// A condition code of Jcc, SETcc, CMOVcc. [APM3 "rFLAGS for CMOVcc, Jcc, and SETcc"]
    #[inline(always)]
    pub(crate) fn condition(&self, code: u8) -> bool {
        let holds = match code >> 1 & 7 {
            0 => self.overflow(),
            1 => self.carry(),
            2 => self.zero(),
            3 => self.carry() || self.zero(),
            4 => self.sign(),
            5 => self.parity(),
            6 => self.sign() != self.overflow(),
            _ => self.zero() || self.sign() != self.overflow(),
        };
        holds != (code & 1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_of_status_flags_survives_being_set() {
        for bits in 0..=rflags::STATUS {
            if bits & !rflags::STATUS == 0 {
                let mut flags = Flags::default();
                flags.set_status(bits);
                assert_eq!(flags.status(), bits);
                let carry = bits & rflags::CF != 0;
                flags.set_carry(!carry);
                assert_eq!(flags.status(), bits ^ rflags::CF);
            }
        }
    }

    #[test]
    fn a_change_is_that_of_the_whole_register_under_its_mask() {
        let masks = [0, rflags::IF | rflags::TF, rflags::CF, rflags::STATUS, rflags::ALL, u64::MAX];
        let patterns = [0, rflags::ALL, rflags::CF | rflags::IF, rflags::ZF | rflags::AC, u64::MAX];
        for (before, bits) in patterns.iter().flat_map(|one| patterns.map(|other| (*one, other))) {
            for mask in masks {
                let (mut changed, mut expected) = (Flags::default(), Flags::default());
                changed.set_bits(before);
                expected.set_bits(changed.bits() & !mask | bits & mask);
                changed.change(bits, mask);
                assert_eq!(changed.bits(), expected.bits(), "{before:#x} {bits:#x} {mask:#x}");
            }
        }
    }

    fn reference_add(a: u8, b: u8, carry: u8) -> (u8, u64) {
        let wide = a as u16 + b as u16 + carry as u16;
        let r = wide as u8;
        let signed = a as i8 as i16 + b as i8 as i16 + carry as i16;
        let mut f = 0;
        f |= if wide > 255 { rflags::CF } else { 0 };
        f |= if (a & 15) + (b & 15) + carry > 15 { rflags::AF } else { 0 };
        f |= if signed != r as i8 as i16 { rflags::OF } else { 0 };
        (r, f | common(r))
    }

    fn reference_subtract(a: u8, b: u8, borrow: u8) -> (u8, u64) {
        let wide = a as i16 - b as i16 - borrow as i16;
        let r = wide as u8;
        let signed = a as i8 as i16 - b as i8 as i16 - borrow as i16;
        let mut f = 0;
        f |= if wide < 0 { rflags::CF } else { 0 };
        f |= if (a & 15) < (b & 15) + borrow { rflags::AF } else { 0 };
        f |= if signed != r as i8 as i16 { rflags::OF } else { 0 };
        (r, f | common(r))
    }

    fn common(r: u8) -> u64 {
        let mut f = 0;
        f |= if r == 0 { rflags::ZF } else { 0 };
        f |= if r >= 128 { rflags::SF } else { 0 };
        f | if r.count_ones().is_multiple_of(2) { rflags::PF } else { 0 }
    }

    #[test]
    fn flags_of_every_8_bit_addition_and_subtraction() {
        for a in 0..=255u8 {
            for b in 0..=255u8 {
                for carry in 0..=1 {
                    let mut flags = Flags::default();
                    let (r, expected) = reference_add(a, b, carry);
                    flags.add(a as u64, b as u64, r);
                    assert_eq!(flags.status(), expected, "{a}+{b}+{carry}");
                    let (r, expected) = reference_subtract(a, b, carry);
                    flags.subtract(a as u64, b as u64, r);
                    assert_eq!(flags.status(), expected, "{a}-{b}-{carry}");
                }
            }
        }
    }

    #[test]
    fn increment_keeps_the_carry() {
        for a in 0..=255u8 {
            for carry in [false, true] {
                let mut flags = Flags::default();
                let r = a.wrapping_add(1);
                flags.add(a as u64, 1, r);
                flags.keep_carry(carry);
                let (_, expected) = reference_add(a, 1, 0);
                let carry_bit = if carry { rflags::CF } else { 0 };
                assert_eq!(flags.status(), expected & !rflags::CF | carry_bit, "{a}");
            }
        }
    }
}

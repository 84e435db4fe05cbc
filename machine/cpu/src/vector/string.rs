//! PCMPESTRI, PCMPESTRM, PCMPISTRI and PCMPISTRM [SDM1 "String and Text Processing"].

use super::{bytes, from_bytes, from_words, words};
use arch::control::rflags;
use std::array::from_fn;

/// Up to sixteen elements, widened, and how many of them are valid.
struct Elements {
    values: [i32; 16],
    valid: usize,
}

/// What a comparison leaves for the index, the mask and the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The result bit of each element of the second operand.
    pub bits: u16,
    /// 16 for bytes, 8 for words.
    pub elements: u8,
    /// SF: the first operand is shorter than the register.
    pub is_first_short: bool,
    /// ZF: the second one is.
    pub is_second_short: bool,
}

/// The implicit forms end at the first zero element.
pub fn implicit(a: u128, b: u128, immediate: u8) -> Comparison {
    let limit = |elements: Elements| {
        let end = elements.values[..elements.valid].iter().position(|&value| value == 0);
        Elements { valid: end.unwrap_or(elements.valid), ..elements }
    };
    compare(limit(split(a, immediate)), limit(split(b, immediate)), immediate)
}

/// The explicit forms take lengths from RAX and RDX; magnitudes saturate at the register.
pub fn explicit(a: u128, b: u128, lengths: (i64, i64), immediate: u8) -> Comparison {
    let limit = |elements: Elements, length: i64| {
        let length = length.unsigned_abs().min(elements.valid as u64);
        Elements { valid: length as usize, ..elements }
    };
    let (x, y) = (split(a, immediate), split(b, immediate));
    compare(limit(x, lengths.0), limit(y, lengths.1), immediate)
}

/// Elements as the immediate's low bits say: unsigned or signed, bytes or words.
fn split(value: u128, immediate: u8) -> Elements {
    let (narrow, wide) = (bytes(value), words(value));
    let element = |lane: usize| match immediate & 3 {
        0 => i32::from(narrow[lane]),
        2 => i32::from(narrow[lane] as i8),
        _ if lane > 7 => 0,
        1 => i32::from(wide[lane]),
        _ => i32::from(wide[lane] as i16),
    };
    Elements { values: from_fn(element), valid: if immediate & 1 == 0 { 16 } else { 8 } }
}

fn compare(a: Elements, b: Elements, immediate: u8) -> Comparison {
    let count = if immediate & 1 == 0 { 16 } else { 8 };
    let holds = |at: usize| match immediate >> 2 & 3 {
        0 => is_any(&a, &b, at),
        1 => is_in_range(&a, &b, at),
        2 => is_equal(&a, &b, at),
        _ => starts_at(&a, &b, at, count),
    };
    let raw = (0..count).fold(0u16, |bits, at| bits | u16::from(holds(at)) << at);
    let all = (u32::from(u16::MAX) >> (16 - count)) as u16;
    let valid = ((1u32 << b.valid) - 1) as u16;
    let bits = match immediate >> 4 & 3 {
        1 => raw ^ all,
        3 => raw ^ valid,
        _ => raw,
    };
    Comparison {
        bits,
        elements: count as u8,
        is_first_short: a.valid < count,
        is_second_short: b.valid < count,
    }
}

fn is_any(a: &Elements, b: &Elements, at: usize) -> bool {
    at < b.valid && a.values[..a.valid].contains(&b.values[at])
}

/// The first operand holds pairs of bounds; a pair counts when both bounds are valid.
fn is_in_range(a: &Elements, b: &Elements, at: usize) -> bool {
    let mut pairs = a.values[..a.valid].chunks_exact(2);
    at < b.valid && pairs.any(|pair| (pair[0]..=pair[1]).contains(&b.values[at]))
}

/// Two invalid elements are equal, a valid one and an invalid one are not.
fn is_equal(a: &Elements, b: &Elements, at: usize) -> bool {
    match (at < a.valid, at < b.valid) {
        (true, true) => a.values[at] == b.values[at],
        (is_first, is_second) => is_first == is_second,
    }
}

/// The first operand's string begins here, as far as the register shows.
fn starts_at(a: &Elements, b: &Elements, at: usize, count: usize) -> bool {
    (at..count)
        .zip(0..a.valid)
        .all(|(second, first)| second < b.valid && a.values[first] == b.values[second])
}

impl Comparison {
    /// ECX: the lowest or (immediate bit 6) highest set bit; the element count if there is none.
    pub fn index(&self, immediate: u8) -> u32 {
        match (self.bits, immediate >> 6 & 1) {
            (0, _) => u32::from(self.elements),
            (bits, 0) => bits.trailing_zeros(),
            (bits, _) => 15 - bits.leading_zeros(),
        }
    }

    /// XMM0: the bits, or (immediate bit 6) one all-ones element for each.
    pub fn mask(&self, immediate: u8) -> u128 {
        let is_set = |lane: usize| self.bits >> lane & 1 != 0;
        match (immediate >> 6 & 1, self.elements) {
            (0, _) => u128::from(self.bits),
            (_, 16) => from_bytes(from_fn(|lane| if is_set(lane) { u8::MAX } else { 0 })),
            _ => from_words(from_fn(|lane| if is_set(lane) { u16::MAX } else { 0 })),
        }
    }

    /// The status flags: CF, ZF, SF and OF; the others are cleared.
    pub fn status(&self) -> u64 {
        let flag = |holds: bool, flag: u64| if holds { flag } else { 0 };
        flag(self.has_any(), rflags::CF)
            | flag(self.is_second_short, rflags::ZF)
            | flag(self.is_first_short, rflags::SF)
            | flag(self.has_first(), rflags::OF)
    }

    /// CF.
    pub fn has_any(&self) -> bool {
        self.bits != 0
    }

    /// OF.
    pub fn has_first(&self) -> bool {
        self.bits & 1 != 0
    }
}

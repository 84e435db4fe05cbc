//! RCPPS and RSQRTPS: approximations with a relative error of at most 1.5 * 2^-12.
//!
//! The manuals leave the bits open and chips differ. Ours are the exact value rounded to 13
//! significant bits, by integer division, so that every host agrees. Both instructions treat
//! denormal operands as zeros, flush tiny results and raise no exception
//! [SDM2 "RCPPS"] [SDM2 "RSQRTPS"].

const SIGN: u32 = 1 << 31;
const INFINITY: u32 = 0x7F80_0000;
const QUIET: u32 = 1 << 22;
const INDEFINITE: u32 = 0xFFC0_0000;

/// Operands whose result no arithmetic gives: zero (or denormal) and NaN.
fn special(a: u32) -> Option<u32> {
    match a & INFINITY {
        0 => Some(a & SIGN | INFINITY),
        INFINITY if a & !(SIGN | INFINITY) != 0 => Some(a | QUIET),
        _ => None,
    }
}

/// RCPSS of a binary32 pattern.
pub fn reciprocal(a: u32) -> u32 {
    if let Some(result) = special(a) {
        return result;
    }
    let sign = a & SIGN;
    if a & !SIGN == INFINITY {
        return sign;
    }
    let exponent = (a >> 23 & 0xFF) as i32 - 127;
    let significand = u64::from(a & 0x7F_FFFF | 1 << 23);
    // 2^36 / 1.f is in (2^12, 2^13]; halves round up.
    let quotient = (1u64 << 37) / significand;
    let rounded = (quotient >> 1) + (quotient & 1);
    pack(sign, rounded as u32, -1 - exponent)
}

/// RSQRTSS of a binary32 pattern; negative operands give the default NaN.
pub fn reciprocal_square_root(a: u32) -> u32 {
    if let Some(result) = special(a) {
        return result;
    }
    if a & SIGN != 0 {
        return INDEFINITE;
    }
    if a == INFINITY {
        return 0;
    }
    let exponent = (a >> 23 & 0xFF) as i32 - 127;
    let odd = exponent & 1;
    let significand = u64::from(a & 0x7F_FFFF | 1 << 23) << odd;
    // The root of 2^50 / (1.f to 4), times one half of a last place to round by.
    let root = ((1u64 << 51) / significand).isqrt();
    pack(0, rounded_root(root) as u32, -1 - (exponent - odd) / 2)
}

fn rounded_root(root: u64) -> u64 {
    (root + 1) >> 1
}

/// A significand of 12 integer bits (2^12 to 2^13) times `2^exponent`, in binary32.
fn pack(sign: u32, significand: u32, exponent: i32) -> u32 {
    let carry = significand >> 13;
    let biased = exponent + 127 + carry as i32;
    if biased < 1 {
        return sign;
    }
    sign | (biased as u32) << 23 | (significand >> carry << 11) & 0x7F_FFFF
}

//! SSE comparisons: CMPccPS and its kin, COMISS/UCOMISS, MINPS/MAXPS.

use super::exact::{Kind, Unpacked};
use super::scalar::Interchange;
use super::{Context, Exceptions};
use std::cmp::Ordering;

/// How two operands that are not NaN compare; `None` when either is.
pub fn order(a: &Unpacked, b: &Unpacked) -> Option<Ordering> {
    let comparable = |x: &Unpacked| !x.is_nan() && x.kind != Kind::Unsupported;
    if !comparable(a) || !comparable(b) {
        return None;
    }
    Some(rank(a).cmp(&rank(b)))
}

/// A key that orders values: signed exponent of the magnitude, then signed significand.
fn rank(x: &Unpacked) -> (i32, i128) {
    /// Above any exponent of any format, with room for the offset below.
    const INFINITE: i32 = 1 << 20;
    let exponent = match x.kind {
        Kind::Zero => return (0, 0),
        Kind::Finite => x.exponent + (1 << 18),
        _ => INFINITE,
    };
    let significand = i128::from(x.significand);
    if x.is_negative { (-exponent, -significand) } else { (exponent, significand) }
}

/// Unpacks both operands and raises what a comparison raises.
fn compared<B: Interchange>(
    a: B,
    b: B,
    signals_quiet: bool,
    context: &mut Context,
) -> Option<Ordering> {
    let (x, y) = (a.unpack(context), b.unpack(context));
    let has_signaling = x.kind == Kind::Signaling || y.kind == Kind::Signaling;
    let has_nan = x.is_nan() || y.is_nan();
    if has_signaling || signals_quiet && has_nan {
        context.raise(Exceptions::INVALID);
    } else if !has_nan && (x.is_denormal || y.is_denormal) {
        context.raise(Exceptions::DENORMAL);
    }
    order(&x, &y)
}

/// The 32 predicates of VCMPPS, of which CMPPS has the first eight: EQ, LT, LE, UNORD, and their
/// opposites. The next eight hold the other way where an operand is NaN; the upper sixteen are
/// quiet about a NaN where the lower ones are not, and the reverse.
/// [SDM2 "Comparison Predicate for VCMPPD and VCMPPS Instructions"]
pub fn predicate<B: Interchange>(a: B, b: B, predicate: u8, context: &mut Context) -> bool {
    let signals_quiet = matches!(predicate & 3, 1 | 2) != (predicate & 16 != 0);
    let ordering = compared(a, b, signals_quiet, context);
    let counts_unordered = predicate & 8 != 0;
    let holds = match (predicate & 3, ordering) {
        (3, _) => ordering.is_none() && !counts_unordered,
        (_, None) => counts_unordered,
        (0, _) => ordering == Some(Ordering::Equal),
        (1, _) => ordering == Some(Ordering::Less),
        _ => ordering != Some(Ordering::Greater),
    };
    holds != (predicate & 4 != 0)
}

/// COMISS and COMISD.
pub fn ordered<B: Interchange>(a: B, b: B, context: &mut Context) -> Option<Ordering> {
    compared(a, b, true, context)
}

/// UCOMISS and UCOMISD.
pub fn unordered<B: Interchange>(a: B, b: B, context: &mut Context) -> Option<Ordering> {
    compared(a, b, false, context)
}

/// MINPS: the second operand unless the first is smaller, so also for NaNs and two zeros.
pub fn minimum<B: Interchange>(a: B, b: B, context: &mut Context) -> B {
    let is_less = compared(a, b, true, context) == Some(Ordering::Less);
    (if is_less { a } else { b }).flushed(context)
}

/// MAXPS: the second operand unless the first is larger.
pub fn maximum<B: Interchange>(a: B, b: B, context: &mut Context) -> B {
    let is_greater = compared(a, b, true, context) == Some(Ordering::Greater);
    (if is_greater { a } else { b }).flushed(context)
}

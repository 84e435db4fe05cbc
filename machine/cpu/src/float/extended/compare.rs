//! FCOM, FUCOM, FTST and the forms that set EFLAGS.

use crate::float::compare::order;
use crate::float::exact::{Kind, Unpacked};
use crate::float::{Context, Exceptions};
use std::cmp::Ordering;

/// Compares ST0 with an operand; `None` is unordered. Quiet NaNs are invalid operands only of the
/// ordered forms (`signals_quiet`), which FUCOM is not [SDM1 "x87 FPU Compare Instructions"].
pub fn compare(
    a: &Unpacked,
    b: &Unpacked,
    signals_quiet: bool,
    context: &mut Context,
) -> Option<Ordering> {
    context.is_rounded_up = false;
    let is_invalid = |x: &Unpacked| match x.kind {
        Kind::Unsupported | Kind::Signaling => true,
        Kind::Quiet => signals_quiet,
        _ => false,
    };
    let ordering = order(a, b);
    if is_invalid(a) || is_invalid(b) {
        context.raise(Exceptions::INVALID);
    } else if ordering.is_some() && (a.is_denormal || b.is_denormal) {
        context.raise(Exceptions::DENORMAL);
    }
    ordering
}

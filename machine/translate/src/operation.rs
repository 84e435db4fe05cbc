//! The instructions that are translated, by family. Each function decides whether it knows the form
//! before it emits anything; `None` leaves the instruction to its handler.

mod arithmetic;
mod bit;
mod branch;
mod multiply;
pub(crate) mod shift;
mod stack;
mod string;
mod transfer;
mod vector;
mod wide;

use crate::translator::Translator;
use iced_x86::{EncodingKind, Instruction};

/// Emits an instruction; answers whether the next one can be reached from it.
pub(crate) fn translate(t: &mut Translator<'_>, i: &Instruction) -> Option<bool> {
    if let Some(goes_on) = branch::translate(t, i) {
        return Some(goes_on);
    }
    arithmetic::translate(t, i)
        .or_else(|| transfer::translate(t, i))
        .or_else(|| shift::translate(t, i))
        .or_else(|| bit::translate(t, i))
        .or_else(|| multiply::translate(t, i))
        .or_else(|| stack::translate(t, i))
        .or_else(|| string::translate(t, i))
        .or_else(|| match i.encoding() {
            EncodingKind::VEX => wide::translate(t, i),
            _ => vector::translate(t, i),
        })
        .map(|()| true)
}

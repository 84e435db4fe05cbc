//! What instructions do, a file per family. Each file binds its mnemonics to handlers (`bind`) and
//! holds the handlers.
//!
//! A handler leaves all state as it was when it reports a fault: it reads and checks first, then
//! writes memory, then registers and flags.

mod aes;
mod arithmetic;
mod avx;
pub(crate) mod binding;
mod bit;
mod branch;
mod decimal;
mod extended_state;
mod flag;
pub mod flat;
pub mod fused;
mod io;
mod lanes;
mod mmx;
mod multiply;
pub(crate) mod privileged;
mod segment;
mod shift;
mod sse;
mod sse_float;
mod sse_integer;
mod sse_move;
mod sse_string;
pub(crate) mod stack;
mod string;
mod transfer;
mod uintr;
pub mod x87;

use crate::operation::Op;
use crate::operation::decode::CodeSize;
use crate::{Bus, Cpu, Stop};
use binding::Binding;
use iced_x86::Instruction;

/// Binds the instructions of one family.
pub(crate) type Family = fn(&Instruction, CodeSize) -> Option<Binding>;

/// The families in the order in which they are asked.
pub(crate) const FAMILIES: &[Family] = &[
    transfer::bind,
    arithmetic::bind,
    branch::bind,
    stack::bind,
    shift::bind,
    bit::bind,
    multiply::bind,
    string::bind,
    flag::bind,
    io::bind,
    segment::bind,
    privileged::bind,
    decimal::bind,
    sse_move::bind,
    sse_integer::bind,
    sse_float::bind,
    sse_string::bind,
    aes::bind,
    avx::bind,
    mmx::bind,
    x87::bind,
    extended_state::bind,
    uintr::bind,
];

/// #UD
pub fn undefined(_: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    Err(Stop::INVALID_OPCODE)
}

/// An instruction longer than 15 bytes: #GP(0). [APM3 "Instruction Encoding"]
pub fn too_long(_: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    Err(Stop::GENERAL_PROTECTION)
}

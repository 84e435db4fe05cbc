//! FSIN, FCOS, FSINCOS, FPTAN, FPATAN, FYL2X, FYL2XP1, FPREM, FPREM1 and FXTRACT.

use crate::execute::binding::{Binding, Handler};
use crate::execute::sse::handler;
use crate::execute::x87::unit;
use crate::float::exact::Unpacked;
use crate::float::extended::remainder::remainder;
use crate::float::extended::transcendental::{
    Function, arc_tangent, logarithm, logarithm_plus_one, trigonometric,
};
use crate::float::extended::{Extended, arithmetic};
use crate::float::{Context, Exceptions};
use crate::operation::Op;
use crate::operation::decode::Cost;
use crate::state::x87::{C0, C1, C2, C3};
use crate::{Bus, Cpu, Stop};
use iced_x86::{Instruction, Mnemonic};

/// FSIN and FCOS. C2 says that the operand is out of range and nothing happened.
#[inline(always)]
fn angle(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op, function: Function) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    let unit = &mut cpu.registers.x87;
    let is_empty = unit.is_empty(0);
    let mut is_out_of_range = false;
    unit.compute(0, is_empty, |a, context| {
        let value = trigonometric(function, a.unpack(), context);
        is_out_of_range = value.is_none();
        value.unwrap_or(a)
    });
    unit.set_codes(C2, if is_out_of_range { C2 } else { 0 });
    cpu.registers.note_x87(op);
    Ok(())
}

/// FSINCOS and FPTAN: a pair, or `None` and C2.
#[inline(always)]
fn pair_of_angle(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: fn(Extended, &mut Context) -> Option<(Extended, Extended)>,
) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    cpu.registers.x87.set_codes(C2, 0);
    pair(cpu, bus, op, function)
}

/// Replaces ST0 by one value and pushes another.
#[inline(always)]
fn pair(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(Extended, &mut Context) -> Option<(Extended, Extended)>,
) -> Result<(), Stop> {
    const LAST: u8 = 7;
    unit::enter_x87(cpu)?;
    let unit = &mut cpu.registers.x87;
    if unit.is_empty(0) || !unit.is_empty(LAST) {
        let is_overflow = !unit.is_empty(0);
        if !unit.stack_fault(is_overflow) {
            unit.set_st(0, Extended::INDEFINITE);
            unit.push(Extended::INDEFINITE);
        }
    } else {
        let mut context = unit.context();
        let values = function(unit.st(0), &mut context);
        let is_forbidden = unit.raise(&context, Exceptions::PRE_COMPUTATION);
        if values.is_none() {
            unit.set_codes(C2, C2);
        }
        if let (Some((first, second)), false) = (values, is_forbidden) {
            unit.set_st(0, first);
            unit.push(second);
        }
    }
    cpu.registers.note_x87(op);
    Ok(())
}

fn sine_and_cosine(a: Extended, context: &mut Context) -> Option<(Extended, Extended)> {
    let sine = trigonometric(Function::Sine, a.unpack(), context)?;
    if context.unmasked().intersects(Exceptions::PRE_COMPUTATION) {
        return Some((a, a));
    }
    let cosine = trigonometric(Function::Cosine, a.unpack(), context)?;
    Some((sine, cosine))
}

/// A NaN or an invalid operand is pushed in place of the one.
fn tangent(a: Extended, context: &mut Context) -> Option<(Extended, Extended)> {
    let value = trigonometric(Function::Tangent, a.unpack(), context)?;
    let is_number = !a.unpack().is_nan() && !context.raised.contains(Exceptions::INVALID);
    Some((value, if is_number { Extended::ONE } else { value }))
}

fn extract(a: Extended, context: &mut Context) -> Option<(Extended, Extended)> {
    Some(arithmetic::extract(a.unpack(), context))
}

/// A function of ST1 and ST0 into ST1, then a pop.
#[inline(always)]
fn popping(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    op: &Op,
    function: fn(Unpacked, Unpacked, &mut Context) -> Extended,
) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    let unit = &mut cpu.registers.x87;
    let is_empty = unit.is_empty(0) || unit.is_empty(1);
    let x = unit.st(0).unpack();
    if unit.compute(1, is_empty, |y, context| function(y.unpack(), x, context)) {
        unit.pop();
    }
    cpu.registers.note_x87(op);
    Ok(())
}

/// FPREM and FPREM1: C2 while the reduction is incomplete, else the quotient's low bits in C0, C3
/// and C1.
fn partial_remainder<const NEAREST: bool>(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    let unit = &mut cpu.registers.x87;
    let is_empty = unit.is_empty(0) || unit.is_empty(1);
    let divisor = unit.st(1).unpack();
    let (mut quotient, mut is_complete) = (None, true);
    let is_stored = unit.compute(0, is_empty, |a, context| {
        let result = remainder(a.unpack(), divisor, NEAREST, context);
        (quotient, is_complete) = (result.quotient, result.is_complete);
        result.value
    });
    unit.set_codes(C2, if is_complete || !is_stored { 0 } else { C2 });
    if let (Some(quotient), true) = (quotient, is_stored) {
        let bit = |bit: u8, code: u16| if quotient >> bit & 1 != 0 { code } else { 0 };
        unit.set_codes(C0 | C1 | C3, bit(0, C1) | bit(1, C3) | bit(2, C0));
    }
    cpu.registers.note_x87(op);
    Ok(())
}

pub(super) fn bind(i: &Instruction) -> Option<Binding> {
    let handler: Handler = match i.mnemonic() {
        Mnemonic::Fsin => handler!(angle, Function::Sine),
        Mnemonic::Fcos => handler!(angle, Function::Cosine),
        Mnemonic::Fsincos => handler!(pair_of_angle, sine_and_cosine),
        Mnemonic::Fptan => handler!(pair_of_angle, tangent),
        Mnemonic::Fxtract => handler!(pair, extract),
        Mnemonic::Fpatan => handler!(popping, arc_tangent),
        Mnemonic::Fyl2x => handler!(popping, logarithm),
        Mnemonic::Fyl2xp1 => handler!(popping, logarithm_plus_one),
        Mnemonic::Fprem => partial_remainder::<false>,
        Mnemonic::Fprem1 => partial_remainder::<true>,
        _ => return None,
    };
    Binding::costing(handler, Cost::FloatSlow)
}

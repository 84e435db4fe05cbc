//! FCOM, FUCOM, FICOM, FTST, FCOMI, FUCOMI and their popping forms; FXAM.

use crate::execute::binding::{Binding, Handler};
use crate::execute::sse_float::comparison_flags;
use crate::execute::x87::unit;
use crate::float::Exceptions;
use crate::float::exact::Unpacked;
use crate::float::extended::{Class, compare, store};
use crate::operation::Op;
use crate::operation::decode::{Cost, is_memory, width};
use crate::state::x87::{C0, C1, C2, C3};
use crate::width::Width;
use crate::{Bus, Cpu, Stop};
use iced_x86::{Instruction, Mnemonic};
use std::cmp::Ordering;

/// How a comparison treats quiet NaNs and the stack, and where its result goes.
#[derive(Clone, Copy)]
struct Form {
    signals_quiet: bool,
    pops: u8,
    into_flags: bool,
}

const fn form(signals_quiet: bool, pops: u8, into_flags: bool) -> Form {
    Form { signals_quiet, pops, into_flags }
}

/// Compares ST0 with an operand (`None`: an empty register).
#[inline(always)]
fn compare_with(cpu: &mut Cpu, op: &Op, operand: Option<Unpacked>, form: Form) {
    let unit = &mut cpu.registers.x87;
    let operand = operand.filter(|_| !unit.is_empty(0));
    let (ordering, is_pending) = match operand {
        None => (None, unit.stack_fault(false)),
        Some(operand) => {
            let mut context = unit.context();
            let top = unit.st(0).unpack();
            let ordering = compare::compare(&top, &operand, form.signals_quiet, &mut context);
            // FCOMI and its kin leave C1 alone.
            context.is_rounded_up = form.into_flags && unit.status & C1 != 0;
            (ordering, unit.raise(&context, Exceptions::PRE_COMPUTATION))
        }
    };
    if !form.into_flags {
        unit.set_codes(C0 | C2 | C3, codes(ordering));
    } else {
        cpu.registers.flags.set_status(comparison_flags(ordering));
    }
    if !is_pending {
        (0..form.pops).for_each(|_| cpu.registers.x87.pop());
    }
    cpu.registers.note_x87(op);
}

fn codes(ordering: Option<Ordering>) -> u16 {
    match ordering {
        Some(Ordering::Greater) => 0,
        Some(Ordering::Less) => C0,
        Some(Ordering::Equal) => C3,
        None => C0 | C2 | C3,
    }
}

#[inline(always)]
fn register(cpu: &mut Cpu, op: &Op, index: u8, form: Form) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    let operand =
        (!cpu.registers.x87.is_empty(index)).then(|| cpu.registers.x87.st(index).unpack());
    compare_with(cpu, op, operand, form);
    Ok(())
}

fn registers<const QUIET: bool, const POPS: u8, const FLAGS: bool>(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    register(cpu, op, op.b, form(QUIET, POPS, FLAGS))
}

/// FCOMPP and FUCOMPP: ST0 and ST1.
fn pair<const QUIET: bool>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    register(cpu, op, 1, form(QUIET, 2, false))
}

fn ftst(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    compare_with(cpu, op, Some(Unpacked::zero(false)), form(true, 0, false));
    Ok(())
}

fn memory<W: Width, const INTEGER: bool, const POPS: u8>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    let value = cpu.read::<W>(bus, op)?;
    let operand = match (INTEGER, W::BITS) {
        (true, _) => super::arithmetic::integer(value),
        (false, 32) => store::operand(value.zero_extend() as u32),
        (false, _) => store::operand(value.zero_extend()),
    };
    compare_with(cpu, op, Some(operand), form(true, POPS, false));
    Ok(())
}

/// FXAM: the class of ST0 in C3, C2 and C0, its sign in C1. It raises nothing, empty or not.
fn fxam(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    let unit = &mut cpu.registers.x87;
    let value = unit.st(0);
    let class = match value.class() {
        _ if unit.is_empty(0) => C3 | C0,
        Class::Unsupported => 0,
        Class::Nan => C0,
        Class::Normal => C2,
        Class::Infinity => C2 | C0,
        Class::Zero => C3,
        Class::Denormal => C3 | C2,
    };
    let sign = if value.is_negative() { C1 } else { 0 };
    unit.set_codes(C0 | C1 | C2 | C3, class | sign);
    cpu.registers.note_x87(op);
    Ok(())
}

pub(super) fn bind(i: &Instruction) -> Option<Binding> {
    let is_memory = is_memory(i, 0);
    let handler: Handler = match (i.mnemonic(), is_memory, width(i, 0)) {
        (Mnemonic::Fcom, true, 4) => memory::<u32, false, 0>,
        (Mnemonic::Fcom, true, _) => memory::<u64, false, 0>,
        (Mnemonic::Fcomp, true, 4) => memory::<u32, false, 1>,
        (Mnemonic::Fcomp, true, _) => memory::<u64, false, 1>,
        (Mnemonic::Ficom, _, 2) => memory::<u16, true, 0>,
        (Mnemonic::Ficom, ..) => memory::<u32, true, 0>,
        (Mnemonic::Ficomp, _, 2) => memory::<u16, true, 1>,
        (Mnemonic::Ficomp, ..) => memory::<u32, true, 1>,
        (Mnemonic::Fcom, ..) => registers::<true, 0, false>,
        (Mnemonic::Fcomp, ..) => registers::<true, 1, false>,
        (Mnemonic::Fcompp, ..) => pair::<true>,
        (Mnemonic::Fucom, ..) => registers::<false, 0, false>,
        (Mnemonic::Fucomp, ..) => registers::<false, 1, false>,
        (Mnemonic::Fucompp, ..) => pair::<false>,
        (Mnemonic::Fcomi, ..) => registers::<true, 0, true>,
        (Mnemonic::Fcomip, ..) => registers::<true, 1, true>,
        (Mnemonic::Fucomi, ..) => registers::<false, 0, true>,
        (Mnemonic::Fucomip, ..) => registers::<false, 1, true>,
        (Mnemonic::Ftst, ..) => ftst,
        (Mnemonic::Fxam, ..) => fxam,
        _ => return None,
    };
    Binding::costing(handler, if is_memory { Cost::Load } else { Cost::Simple })
}

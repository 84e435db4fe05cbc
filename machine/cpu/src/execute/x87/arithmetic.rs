//! FADD, FSUB, FMUL, FDIV and their reversed, popping and integer forms; FSQRT, FRNDINT, FSCALE,
//! F2XM1, FABS, FCHS.

use crate::execute::binding::{Binding, Handler};
use crate::execute::sse::handler;
use crate::execute::x87::unit;
use crate::float::exact::Unpacked;
use crate::float::extended::{Extended, arithmetic, store, transcendental};
use crate::float::{Context, Exceptions};
use crate::operation::Op;
use crate::operation::decode::{Cost, is_memory, width};
use crate::state::x87::{C1, X87};
use crate::width::Width;
use crate::{Bus, Cpu, Stop};
use iced_x86::{Instruction, Mnemonic};

type Operation = fn(Unpacked, Unpacked, &mut Context) -> Extended;

fn subtract_from(a: Unpacked, b: Unpacked, context: &mut Context) -> Extended {
    arithmetic::subtract(b, a, context)
}

fn divide_into(a: Unpacked, b: Unpacked, context: &mut Context) -> Extended {
    arithmetic::divide(b, a, context)
}

impl X87 {
    /// Replaces ST(target) by a function of it, unless an operand is empty or an unmasked exception
    /// forbids; whether it did.
    #[inline(always)]
    pub(super) fn compute(
        &mut self,
        target: u8,
        has_empty_operand: bool,
        function: impl FnOnce(Extended, &mut Context) -> Extended,
    ) -> bool {
        if has_empty_operand {
            let is_stored = !self.stack_fault(false);
            if is_stored {
                self.set_st(target, Extended::INDEFINITE);
            }
            return is_stored;
        }
        let mut context = self.context();
        let value = function(self.st(target), &mut context);
        let is_stored = !self.raise(&context, Exceptions::PRE_COMPUTATION);
        if is_stored {
            self.set_st(target, value);
        }
        is_stored
    }
}

/// `ST(a) = ST(a) operation ST(b)`, then perhaps a pop.
#[inline(always)]
fn registers(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    op: &Op,
    operation: Operation,
    pops: bool,
) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    let unit = &mut cpu.registers.x87;
    let is_empty = unit.is_empty(op.a) || unit.is_empty(op.b);
    let operand = unit.st(op.b).unpack();
    let is_stored = unit.compute(op.a, is_empty, |a, c| operation(a.unpack(), operand, c));
    if is_stored && pops {
        unit.pop();
    }
    cpu.registers.note_x87(op);
    Ok(())
}

/// ST0 and a memory operand.
#[inline(always)]
fn memory<W: Width>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    operation: Operation,
    unpack: fn(W) -> Unpacked,
) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    let operand = unpack(cpu.read::<W>(bus, op)?);
    let is_empty = cpu.registers.x87.is_empty(0);
    cpu.registers.x87.compute(0, is_empty, |a, c| operation(a.unpack(), operand, c));
    cpu.registers.note_x87(op);
    Ok(())
}

pub(super) fn integer<W: Width>(value: W) -> Unpacked {
    Unpacked::from_integer(value.sign_extend() as i64)
}

/// FSQRT, FRNDINT, F2XM1.
#[inline(always)]
fn unary(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    op: &Op,
    operation: impl FnOnce(Extended, &mut Context) -> Extended,
) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    let is_empty = cpu.registers.x87.is_empty(0);
    cpu.registers.x87.compute(0, is_empty, operation);
    cpu.registers.note_x87(op);
    Ok(())
}

fn fscale(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    let unit = &mut cpu.registers.x87;
    let is_empty = unit.is_empty(0) || unit.is_empty(1);
    let scale = unit.st(1).unpack();
    unit.compute(0, is_empty, |a, c| arithmetic::scale(a.unpack(), scale, c));
    cpu.registers.note_x87(op);
    Ok(())
}

/// FABS and FCHS: the sign alone, no exception but a stack fault.
#[inline(always)]
fn sign(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    op: &Op,
    function: fn(Extended) -> Extended,
) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    let is_empty = cpu.registers.x87.is_empty(0);
    cpu.registers.x87.set_codes(C1, 0);
    cpu.registers.x87.compute(0, is_empty, |a, _| function(a));
    cpu.registers.note_x87(op);
    Ok(())
}

fn two_operands(i: &Instruction, operation: Family) -> Handler {
    let Family { of_registers, popping, m32, m64, m16_integer, m32_integer } = operation;
    let is_integer = matches!(
        i.mnemonic(),
        Mnemonic::Fiadd
            | Mnemonic::Fisub
            | Mnemonic::Fisubr
            | Mnemonic::Fimul
            | Mnemonic::Fidiv
            | Mnemonic::Fidivr
    );
    let pops = matches!(
        i.mnemonic(),
        Mnemonic::Faddp
            | Mnemonic::Fsubp
            | Mnemonic::Fsubrp
            | Mnemonic::Fmulp
            | Mnemonic::Fdivp
            | Mnemonic::Fdivrp
    );
    match (is_memory(i, 0), is_integer, width(i, 0)) {
        (true, true, 2) => m16_integer,
        (true, true, _) => m32_integer,
        (true, false, 4) => m32,
        (true, false, _) => m64,
        (false, ..) if pops => popping,
        (false, ..) => of_registers,
    }
}

/// The handlers of one operation.
struct Family {
    of_registers: Handler,
    popping: Handler,
    m32: Handler,
    m64: Handler,
    m16_integer: Handler,
    m32_integer: Handler,
}

macro_rules! family {
    ($operation:path) => {
        Family {
            of_registers: handler!(registers, $operation, false),
            popping: handler!(registers, $operation, true),
            m32: handler!(memory::<u32>, $operation, store::operand),
            m64: handler!(memory::<u64>, $operation, store::operand),
            m16_integer: handler!(memory::<u16>, $operation, integer),
            m32_integer: handler!(memory::<u32>, $operation, integer),
        }
    };
}

pub(super) fn bind(i: &Instruction) -> Option<Binding> {
    let (handler, cost): (Handler, Cost) = match i.mnemonic() {
        Mnemonic::Fadd | Mnemonic::Faddp | Mnemonic::Fiadd => {
            (two_operands(i, family!(arithmetic::add)), Cost::Vector)
        }
        Mnemonic::Fsub | Mnemonic::Fsubp | Mnemonic::Fisub => {
            (two_operands(i, family!(arithmetic::subtract)), Cost::Vector)
        }
        Mnemonic::Fsubr | Mnemonic::Fsubrp | Mnemonic::Fisubr => {
            (two_operands(i, family!(subtract_from)), Cost::Vector)
        }
        Mnemonic::Fmul | Mnemonic::Fmulp | Mnemonic::Fimul => {
            (two_operands(i, family!(arithmetic::multiply)), Cost::Vector)
        }
        Mnemonic::Fdiv | Mnemonic::Fdivp | Mnemonic::Fidiv => {
            (two_operands(i, family!(arithmetic::divide)), Cost::FloatSlow)
        }
        Mnemonic::Fdivr | Mnemonic::Fdivrp | Mnemonic::Fidivr => {
            (two_operands(i, family!(divide_into)), Cost::FloatSlow)
        }
        Mnemonic::Fsqrt => {
            (handler!(unary, |a, c| arithmetic::square_root(a.unpack(), c)), Cost::FloatSlow)
        }
        Mnemonic::Frndint => (handler!(unary, arithmetic::round_to_integral), Cost::FloatSlow),
        Mnemonic::F2xm1 => (
            handler!(unary, |a, c| transcendental::power_minus_one(a.unpack(), c)),
            Cost::FloatSlow,
        ),
        Mnemonic::Fscale => (fscale, Cost::FloatSlow),
        Mnemonic::Fabs => (handler!(sign, Extended::absolute), Cost::Simple),
        Mnemonic::Fchs => (handler!(sign, Extended::negated), Cost::Simple),
        _ => return None,
    };
    Binding::costing(handler, cost)
}

//! ADD, OR, ADC, SBB, AND, SUB, XOR, CMP, TEST, INC, DEC, NEG, NOT; XADD and CMPXCHG of memory.
//!
//! Processors take turns, so LOCK changes nothing here but what the instruction costs.

use crate::address::{Access, Address};
use crate::encode::{Arithmetic, Condition, Register, Size, Unary};
use crate::operand::{Operand, high_byte, operand, size};
use crate::recipe::{By, Recipe};
use crate::register::Guest;
use crate::translator::Translator;
use iced_x86::{Instruction, Mnemonic};

pub(super) fn translate(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let operation = match i.mnemonic() {
        Mnemonic::Add => Arithmetic::Add,
        Mnemonic::Or => Arithmetic::Or,
        Mnemonic::Adc => Arithmetic::Adc,
        Mnemonic::Sbb => Arithmetic::Sbb,
        Mnemonic::And => Arithmetic::And,
        Mnemonic::Sub => Arithmetic::Sub,
        Mnemonic::Xor => Arithmetic::Xor,
        Mnemonic::Cmp => Arithmetic::Cmp,
        Mnemonic::Test => return test(t, i),
        Mnemonic::Inc => return unary(t, i, Unary::Inc),
        Mnemonic::Dec => return unary(t, i, Unary::Dec),
        Mnemonic::Neg => return unary(t, i, Unary::Neg),
        Mnemonic::Not => return unary(t, i, Unary::Not),
        Mnemonic::Xadd => return exchange_add(t, i),
        Mnemonic::Cmpxchg => return compare_exchange(t, i),
        _ => return None,
    };
    binary(t, i, operation)
}

fn is_logic(operation: Arithmetic) -> bool {
    matches!(operation, Arithmetic::And | Arithmetic::Or | Arithmetic::Xor)
}

fn binary(t: &mut Translator<'_>, i: &Instruction, operation: Arithmetic) -> Option<()> {
    let size = size(i, 0)?;
    let (to, from) = (operand(i, 0, size)?, operand(i, 1, size)?);
    if let Operand::Value(value) = from {
        i32::try_from(value).ok()?;
    }
    match to {
        Operand::Register(to) => on_register(t, operation, size, to, from),
        Operand::Memory(to) => on_memory(t, operation, size, to, from),
        Operand::Value(_) => return None,
    }
    t.flags_are_set(is_logic(operation), recipe(operation, size, to, from));
    Some(())
}

/// What makes the flags again.
fn recipe(operation: Arithmetic, size: Size, to: Operand, from: Operand) -> Option<Recipe> {
    let Operand::Register(to) = to else { return None };
    match from {
        Operand::Register(by) => Recipe::of(operation, size, to, By::Register(by)),
        Operand::Value(value) => Recipe::of(operation, size, to, By::Value(value as i32)),
        // What was in memory is not known any more, which only the result's flags do without.
        Operand::Memory(_) => is_logic(operation).then_some(Recipe::Logic(size, to)),
    }
}

/// The carry that ADC and SBB add is in the host's flags.
fn take_carry(t: &mut Translator<'_>, operation: Arithmetic) {
    if matches!(operation, Arithmetic::Adc | Arithmetic::Sbb) {
        t.restore_carry();
    }
}

fn on_register(
    t: &mut Translator<'_>,
    operation: Arithmetic,
    size: Size,
    to: Guest,
    from: Operand,
) {
    match from {
        Operand::Register(from) => {
            take_carry(t, operation);
            let b = t.read(from, Register::RCX);
            let a = t.read(to, Register::RDX);
            t.e.arithmetic(operation, size, a, b);
        }
        Operand::Value(value) => {
            take_carry(t, operation);
            let a = t.read(to, Register::RDX);
            t.e.arithmetic_value(operation, size, a, value as i32);
        }
        Operand::Memory(address) => {
            let memory = t.operand(address, size, Access::Read);
            take_carry(t, operation);
            let a = t.read(to, Register::RDX);
            t.e.arithmetic_load(operation, size, a, memory);
        }
    }
    if operation != Arithmetic::Cmp {
        t.write_back(to, Register::RDX);
    }
}

fn on_memory(
    t: &mut Translator<'_>,
    operation: Arithmetic,
    size: Size,
    to: Address,
    from: Operand,
) {
    let access = if operation == Arithmetic::Cmp { Access::Read } else { Access::Write };
    let memory = t.operand(to, size, access);
    take_carry(t, operation);
    match from {
        Operand::Register(from) => {
            let b = t.read(from, Register::RCX);
            t.e.arithmetic(operation, size, memory, b);
        }
        Operand::Value(value) => t.e.arithmetic_value(operation, size, memory, value as i32),
        Operand::Memory(_) => unreachable!("an instruction has one memory operand"),
    }
}

fn test(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let size = size(i, 0)?;
    if let (Some(high), Ok(value)) = (high_byte(i, 0), i.try_immediate(1)) {
        let a = t.shifted_high_byte(high, Register::RDX);
        t.e.test_value(size, a, i32::from(value as i8));
        t.flags_are_set(true, None);
        return Some(());
    }
    let (a, b) = (operand(i, 0, size)?, operand(i, 1, size)?);
    let b_value = match b {
        Operand::Value(value) => Some(i32::try_from(value).ok()?),
        _ => None,
    };
    let recipe = match (a, b) {
        (Operand::Register(a), Operand::Register(b)) => {
            Some(Recipe::Test(size, a, By::Register(b)))
        }
        (Operand::Register(a), _) => b_value.map(|value| Recipe::Test(size, a, By::Value(value))),
        _ => None,
    };
    let a: crate::encode::Operand = match a {
        Operand::Register(a) => t.read(a, Register::RDX).into(),
        Operand::Memory(address) => t.operand(address, size, Access::Read).into(),
        Operand::Value(_) => return None,
    };
    match (b, b_value) {
        (Operand::Register(b), _) => {
            let b = t.read(b, Register::RCX);
            t.e.test(size, a, b);
        }
        (_, Some(value)) => t.e.test_value(size, a, value),
        _ => unreachable!("the second operand of TEST is a register or a value"),
    }
    t.flags_are_set(true, recipe);
    Some(())
}

fn unary(t: &mut Translator<'_>, i: &Instruction, operation: Unary) -> Option<()> {
    let size = size(i, 0)?;
    let to = operand(i, 0, size)?;
    let keeps_carry = matches!(operation, Unary::Inc | Unary::Dec);
    match to {
        Operand::Register(to) => {
            if keeps_carry && t.needs_status() {
                t.restore_carry();
            }
            let a = t.read(to, Register::RDX);
            t.e.unary(operation, size, a);
            t.write_back(to, Register::RDX);
        }
        Operand::Memory(to) => {
            let memory = t.operand(to, size, Access::Write);
            if keeps_carry && t.needs_status() {
                t.restore_carry();
            }
            t.e.unary(operation, size, memory);
        }
        Operand::Value(_) => return None,
    }
    if operation != Unary::Not {
        t.flags_are_set(false, None);
    }
    Some(())
}

fn exchange_add(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let size = size(i, 0)?;
    let (Operand::Memory(to), Operand::Register(from)) =
        (operand(i, 0, size)?, operand(i, 1, size)?)
    else {
        return None;
    };
    let memory = t.operand(to, size, Access::Write);
    let b = t.read(from, Register::RCX);
    t.e.exchange_add(size, memory, b);
    t.write_back(from, Register::RCX);
    t.flags_are_set(false, None);
    Some(())
}

/// Written out, since the host's takes RAX for the accumulator. What is written back where the
/// operands differ shows nowhere.
fn compare_exchange(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let size = size(i, 0)?;
    let (Operand::Memory(to), Operand::Register(from)) =
        (operand(i, 0, size)?, operand(i, 1, size)?)
    else {
        return None;
    };
    let accumulator = Guest::RAX.host()?;
    let memory = t.operand(to, size, Access::Write);
    t.e.load(size, Register::RCX, memory);
    t.e.arithmetic(Arithmetic::Cmp, size, accumulator, Register::RCX);
    let (differs, done) = (t.e.label(), t.e.label());
    t.e.jump_if(Condition::NOT_ZERO, differs);
    let new = t.read(from, Register::RDX);
    t.e.mov(size, memory, new);
    t.e.jump(done);
    t.e.place(differs);
    t.e.mov(size, accumulator, Register::RCX);
    t.e.place(done);
    t.flags_are_set(false, None);
    Some(())
}

//! IMUL of 16, 32 and 64 bits, MUL, DIV, IDIV of 32 and 64.

use crate::address::Access;
use crate::encode::{Arithmetic, Condition, Memory, Register, Size, Unary};
use crate::operand::{Operand, operand, size};
use crate::register::Guest;
use crate::translator::Translator;
use iced_x86::{Instruction, Mnemonic};

pub(super) fn translate(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    match i.mnemonic() {
        Mnemonic::Imul if i.op_count() > 1 => imul(t, i),
        Mnemonic::Imul => wide(t, i, Unary::ImulWide),
        Mnemonic::Mul => wide(t, i, Unary::Mul),
        Mnemonic::Div => div(t, i),
        Mnemonic::Idiv => idiv(t, i),
        _ => None,
    }
}

/// The forms with a destination: the second or third operand is the other factor.
fn imul(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let size = size(i, 0).filter(|size| *size != Size::Byte)?;
    let Operand::Register(to) = operand(i, 0, size)? else { return None };
    let from = operand(i, 1, size)?;
    let value = match i.op_count() {
        3 => match operand(i, 2, size)? {
            Operand::Value(value) => Some(i32::try_from(value).ok()?),
            _ => return None,
        },
        _ => None,
    };
    let from: crate::encode::Operand = match from {
        Operand::Register(from) => t.read(from, Register::RCX).into(),
        Operand::Memory(from) => t.operand(from, size, Access::Read).into(),
        Operand::Value(_) => return None,
    };
    let a = t.read(to, Register::RDX);
    match value {
        Some(value) => t.e.imul_value(size, a, from, value),
        None => t.e.imul(size, a, from),
    }
    t.write_back(to, Register::RDX);
    t.set_product_flags(size, a);
    Some(())
}

/// The other factor or the divisor into RCX.
fn source(t: &mut Translator<'_>, size: Size, from: Operand) -> Option<()> {
    match from {
        Operand::Register(from) => {
            let held = t.read(from, Register::RCX);
            if held != Register::RCX {
                t.e.mov(Size::Quad, Register::RCX, held);
            }
        }
        Operand::Memory(from) => {
            let memory = t.operand(from, size, Access::Read);
            t.e.load(size, Register::RCX, memory);
        }
        Operand::Value(_) => return None,
    }
    Some(())
}

/// The accumulator into host RAX.
fn load_accumulator(t: &mut Translator<'_>) {
    let a = t.read(Guest::RAX, Register::RAX);
    if a != Register::RAX {
        t.e.mov(Size::Quad, Register::RAX, a);
    }
}

/// A product of twice the size in rDX:rAX.
fn wide(t: &mut Translator<'_>, i: &Instruction, operation: Unary) -> Option<()> {
    let size = size(i, 0).filter(|size| matches!(size, Size::Double | Size::Quad))?;
    let from = operand(i, 0, size)?;
    source(t, size, from)?;
    load_accumulator(t);
    t.e.unary(operation, size, Register::RCX);
    t.assign(Guest::RAX, Register::RAX);
    t.assign(Guest::RDX, Register::RDX);
    let low = t.read(Guest::RAX, Register::RDX);
    t.set_product_flags(size, low);
    Some(())
}

/// The flags stay as they are. A quotient that does not fit is the handler's.
fn div(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let size = size(i, 0).filter(|size| matches!(size, Size::Double | Size::Quad))?;
    let from = operand(i, 0, size)?;
    t.save();
    source(t, size, from)?;
    load_accumulator(t);
    let high = t.read(Guest::RDX, Register::RDX);
    if high != Register::RDX {
        t.e.mov(Size::Quad, Register::RDX, high);
    }
    let slow = t.slow_path();
    t.e.arithmetic(Arithmetic::Cmp, size, Register::RDX, Register::RCX);
    t.e.jump_if(Condition::NO_CARRY, slow);
    t.e.unary(Unary::Div, size, Register::RCX);
    t.assign(Guest::RAX, Register::RAX);
    t.assign(Guest::RDX, Register::RDX);
    Some(())
}

/// As `div`. The handler's is what does not begin with a sign-extended dividend, and the divisors 0
/// and -1, with which alone the quotient of one does not fit.
fn idiv(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let size = size(i, 0).filter(|size| matches!(size, Size::Double | Size::Quad))?;
    let from = operand(i, 0, size)?;
    t.save();
    source(t, size, from)?;
    load_accumulator(t);
    let slow = t.slow_path();
    t.e.spread_sign(size);
    let high = Guest::RDX.host()?;
    t.e.arithmetic(Arithmetic::Cmp, size, Register::RDX, high);
    t.e.jump_if(Condition::NOT_ZERO, slow);
    t.e.lea(size, Register::RDX, Memory::at(Register::RCX, 1));
    t.e.arithmetic_value(Arithmetic::Cmp, size, Register::RDX, 1);
    t.e.jump_if(Condition::BELOW_OR_EQUAL, slow);
    t.e.mov(Size::Quad, Register::RDX, high);
    t.e.unary(Unary::Idiv, size, Register::RCX);
    t.assign(Guest::RAX, Register::RAX);
    t.assign(Guest::RDX, Register::RDX);
    Some(())
}

//! MOV, MOVZX, MOVSX, MOVSXD, LEA, CMOVcc, SETcc, CBW to CQO, BSWAP, XCHG, NOP.

use crate::address::{Access, Address};
use crate::encode::{Condition, Extend, Memory, Register, Size};
use crate::operand::{Operand, high_byte, operand, size};
use crate::register::Guest;
use crate::translator::Translator;
use iced_x86::{ConditionCode, Instruction, Mnemonic};

pub(super) fn translate(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    use Mnemonic::*;
    match i.mnemonic() {
        Mov => mov(t, i),
        Movzx => extend(t, i, Extend::Zero),
        Movsx | Movsxd => extend(t, i, Extend::Sign),
        Lea => lea(t, i),
        Cwde => widen(t, Size::Double, Size::Word),
        Cdqe => widen(t, Size::Quad, Size::Double),
        Cdq => spread(t, Size::Double),
        Cqo => spread(t, Size::Quad),
        Bswap => bswap(t, i),
        Xchg => exchange(t, i),
        Nop | Endbr32 | Endbr64 | Prefetchnta | Prefetcht0 | Prefetcht1 | Prefetcht2
        | Prefetchw => Some(()),
        Cmovo | Cmovno | Cmovb | Cmovae | Cmove | Cmovne | Cmovbe | Cmova | Cmovs | Cmovns
        | Cmovp | Cmovnp | Cmovl | Cmovge | Cmovle | Cmovg => move_if(t, i),
        Seto | Setno | Setb | Setae | Sete | Setne | Setbe | Seta | Sets | Setns | Setp | Setnp
        | Setl | Setge | Setle | Setg => set_if(t, i),
        _ => None,
    }
}

/// The condition of a conditional instruction.
pub(super) fn condition(i: &Instruction) -> Option<Condition> {
    use ConditionCode::*;
    const CODES: [ConditionCode; 16] = [o, no, b, ae, e, ne, be, a, s, ns, p, np, l, ge, le, g];
    let code = i.condition_code();
    CODES.iter().position(|other| *other == code).map(|number| Condition(number as u8))
}

fn mov(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let size = size(i, 0)?;
    match (operand(i, 0, size)?, operand(i, 1, size)?) {
        (Operand::Register(to), Operand::Register(from)) => {
            let b = t.read(from, Register::RCX);
            if size == Size::Quad {
                t.assign(to, b);
                return Some(());
            }
            let a = if size == Size::Double {
                t.target(to, Register::RDX)
            } else {
                t.read(to, Register::RDX)
            };
            t.e.mov(size, a, b);
            t.write_back(to, Register::RDX);
        }
        (Operand::Register(to), Operand::Value(value)) => match size {
            Size::Double | Size::Quad => {
                let value = if size == Size::Quad { value as u64 } else { value as u32 as u64 };
                let a = t.target(to, Register::RDX);
                t.e.set(a, value);
                t.write_back(to, Register::RDX);
            }
            Size::Byte | Size::Word => {
                let a = t.read(to, Register::RDX);
                t.e.store_value(size, a, value as i32);
                t.write_back(to, Register::RDX);
            }
        },
        (Operand::Register(to), Operand::Memory(from)) => {
            let memory = t.operand(from, size, Access::Read);
            let a = if matches!(size, Size::Double | Size::Quad) {
                t.target(to, Register::RDX)
            } else {
                t.read(to, Register::RDX)
            };
            t.e.load(size, a, memory);
            t.write_back(to, Register::RDX);
        }
        (Operand::Memory(to), Operand::Register(from)) => {
            let memory = t.operand(to, size, Access::Write);
            let b = t.read(from, Register::RCX);
            t.e.mov(size, memory, b);
        }
        (Operand::Memory(to), Operand::Value(value)) => {
            let value = i32::try_from(value).ok()?;
            let memory = t.operand(to, size, Access::Write);
            t.e.store_value(size, memory, value);
        }
        _ => return None,
    }
    Some(())
}

fn extend(t: &mut Translator<'_>, i: &Instruction, extend: Extend) -> Option<()> {
    let (to_size, from_size) = (size(i, 0)?, size(i, 1)?);
    let Operand::Register(to) = operand(i, 0, to_size)? else { return None };
    if let (Some(high), Size::Double | Size::Quad) = (high_byte(i, 1), to_size) {
        t.save();
        let from = t.shifted_high_byte(high, Register::RCX);
        let a = t.target(to, Register::RDX);
        t.e.extend(extend, (to_size, a), (from_size, from));
        t.write_back(to, Register::RDX);
        return Some(());
    }
    let from = operand(i, 1, from_size)?;
    if from_size.bytes() >= to_size.bytes() || matches!(to_size, Size::Byte | Size::Word) {
        return None;
    }
    let from: crate::encode::Operand = match from {
        Operand::Register(from) => t.read(from, Register::RCX).into(),
        Operand::Memory(from) => t.operand(from, from_size, Access::Read).into(),
        Operand::Value(_) => return None,
    };
    let a = t.target(to, Register::RDX);
    t.e.extend(extend, (to_size, a), (from_size, from));
    t.write_back(to, Register::RDX);
    Some(())
}

fn lea(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let size = size(i, 0).filter(|size| matches!(size, Size::Double | Size::Quad))?;
    let Operand::Register(to) = operand(i, 0, size)? else { return None };
    let address = Address::of(i)?;
    let a = t.target(to, Register::RAX);
    t.effective_address(address, size, a);
    t.write_back(to, Register::RAX);
    Some(())
}

/// CWDE and CDQE.
fn widen(t: &mut Translator<'_>, to: Size, from: Size) -> Option<()> {
    let a = t.read(Guest::RAX, Register::RAX);
    t.e.extend(Extend::Sign, (to, a), (from, a));
    t.write_back(Guest::RAX, Register::RAX);
    Some(())
}

/// CDQ and CQO.
fn spread(t: &mut Translator<'_>, size: Size) -> Option<()> {
    let a = t.read(Guest::RAX, Register::RAX);
    if a != Register::RAX {
        t.e.mov(Size::Quad, Register::RAX, a);
    }
    t.e.spread_sign(size);
    t.assign(Guest::RDX, Register::RDX);
    Some(())
}

fn bswap(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let size = size(i, 0).filter(|size| matches!(size, Size::Double | Size::Quad))?;
    let Operand::Register(to) = operand(i, 0, size)? else { return None };
    let a = t.read(to, Register::RDX);
    t.e.bswap(size, a);
    t.write_back(to, Register::RDX);
    Some(())
}

fn exchange(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let size = size(i, 0)?;
    let (a, b) = match (operand(i, 0, size)?, operand(i, 1, size)?) {
        (Operand::Memory(to), Operand::Register(from)) => {
            let memory = t.operand(to, size, Access::Write);
            t.e.load(size, Register::RCX, memory);
            let b = t.read(from, Register::RDX);
            t.e.mov(size, memory, b);
            t.e.mov(size, b, Register::RCX);
            t.write_back(from, Register::RDX);
            return Some(());
        }
        (Operand::Register(a), Operand::Register(b)) => (a, b),
        _ => return None,
    };
    if matches!(size, Size::Byte | Size::Word) {
        return None;
    }
    let held_a = t.read(a, Register::RCX);
    let held_b = t.read(b, Register::RDX);
    // Of 32 bits, these are extended as they are copied.
    t.e.mov(size, Register::RAX, held_a);
    t.e.mov(size, Register::RDX, held_b);
    t.assign(a, Register::RDX);
    t.assign(b, Register::RAX);
    Some(())
}

fn move_if(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let size = size(i, 0)?;
    let condition = condition(i)?;
    let Operand::Register(to) = operand(i, 0, size)? else { return None };
    let b = match operand(i, 1, size)? {
        Operand::Register(from) => {
            let condition = t.condition(condition);
            let b = t.read(from, Register::RCX);
            return finish_move_if(t, condition, size, to, b);
        }
        Operand::Memory(from) => {
            let memory = t.operand(from, size, Access::Read);
            t.e.load(size, Register::RCX, memory);
            Register::RCX
        }
        Operand::Value(_) => return None,
    };
    let condition = t.condition(condition);
    finish_move_if(t, condition, size, to, b)
}

fn finish_move_if(
    t: &mut Translator<'_>,
    condition: Condition,
    size: Size,
    to: Guest,
    from: Register,
) -> Option<()> {
    let a = t.read(to, Register::RDX);
    t.e.move_if(condition, size, a, from);
    t.write_back(to, Register::RDX);
    Some(())
}

fn set_if(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let condition = condition(i)?;
    match operand(i, 0, Size::Byte)? {
        Operand::Register(to) => {
            let condition = t.condition(condition);
            let a = t.read(to, Register::RDX);
            t.e.set_if(condition, a);
            t.write_back(to, Register::RDX);
        }
        Operand::Memory(to) => {
            t.operand(to, Size::Byte, Access::Write);
            t.e.mov(Size::Quad, Register::RCX, Register::RAX);
            let condition = t.condition(condition);
            t.e.set_if(condition, Memory::at(Register::RCX, 0));
        }
        Operand::Value(_) => return None,
    }
    Some(())
}

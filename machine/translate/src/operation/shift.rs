//! SHL, SHR, SAR by a value or by CL, ROL and ROR by a value.
//!
//! OF of shifts by more than one and AF are undefined; the interpreter's rules: OF is what it would
//! be after a shift of the same kind by one bit (SHL: the result's sign differs from CF; SHR: the
//! operand's sign; SAR: clear), AF is clear. After rotations AF stays.

use crate::address::{Access, Address};
use crate::encode::{Arithmetic, BitTest, Condition, Register, Shift, Size};
use crate::operand::{Operand, operand, size};
use crate::register::Guest;
use crate::status::Status;
use crate::translator::Translator;
use iced_x86::{Instruction, Mnemonic, OpKind};

const OVERFLOW: Condition = Condition(0);
const SIGN: Condition = Condition(8);

pub(super) fn translate(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let shift = match i.mnemonic() {
        Mnemonic::Shl | Mnemonic::Sal => Shift::Shl,
        Mnemonic::Shr => Shift::Shr,
        Mnemonic::Sar => Shift::Sar,
        Mnemonic::Rol => Shift::Rol,
        Mnemonic::Ror => Shift::Ror,
        _ => return None,
    };
    let size = size(i, 0)?;
    let to = operand(i, 0, size)?;
    if i.op_kind(1) == OpKind::Register {
        return by_cl(t, shift, size, to);
    }
    let count = count(i, size)?;
    match (shift, to) {
        (Shift::Rol | Shift::Ror, Operand::Register(to)) => rotate(t, shift, size, to, count),
        (Shift::Rol | Shift::Ror, _) => return None,
        (_, Operand::Register(to)) => {
            let a = t.read(to, Register::RDX);
            t.e.shift(shift, size, a, count);
            t.write_back(to, Register::RDX);
            set_flags(t, shift, size, a, count);
        }
        (_, Operand::Memory(to)) => in_memory(t, shift, size, to, count),
        (_, Operand::Value(_)) => return None,
    }
    Some(())
}

/// The constant count of a shift or rotation within its operand.
fn count(i: &Instruction, size: Size) -> Option<u8> {
    let mask = if size == Size::Quad { 63 } else { 31 };
    let count = i.try_immediate(1).ok()? as u8 & mask;
    (1..size.bits()).contains(&count).then_some(count)
}

/// Whether a rotation of a register needs no handler.
pub(crate) fn rotates_by_value(i: &Instruction) -> bool {
    size(i, 0).is_some_and(|size| i.op_kind(1) != OpKind::Register && count(i, size).is_some())
}

fn in_memory(t: &mut Translator<'_>, shift: Shift, size: Size, to: Address, count: u8) {
    let memory = t.operand(to, size, Access::Write);
    t.e.load(size, Register::RDX, memory);
    t.e.shift(shift, size, Register::RDX, count);
    t.e.mov(size, memory, Register::RDX);
    set_flags(t, shift, size, Register::RDX, count);
}

/// After a shift whose result is in `a`, whose flags the host still has.
fn set_flags(t: &mut Translator<'_>, shift: Shift, size: Size, a: Register, count: u8) {
    if !t.needs_status() {
        t.status = Status::Dead;
        return;
    }
    t.e.lahf();
    match shift {
        Shift::Shl => overflow_of_left(t, Register::RCX),
        Shift::Shr if count == 1 => t.e.set_if(OVERFLOW, Register::RAX),
        Shift::Shr => {
            let at_least_double = if size == Size::Quad { size } else { Size::Double };
            t.e.bit_test(BitTest::Bt, at_least_double, a, size.bits() - 1 - count);
            t.e.set_if(Condition::CARRY, Register::RAX);
        }
        _ => t.e.store_value(Size::Byte, Register::RAX, 0),
    }
    t.store_status(true);
    t.status = Status::Saved;
}

/// AL = the sign differs from the carry; `spare` is lost.
fn overflow_of_left(t: &mut Translator<'_>, spare: Register) {
    t.e.set_if(SIGN, Register::RAX);
    t.e.set_if(Condition::CARRY, spare);
    t.e.arithmetic(Arithmetic::Xor, Size::Byte, Register::RAX, spare);
}

fn by_cl(t: &mut Translator<'_>, shift: Shift, size: Size, to: Operand) -> Option<()> {
    let Operand::Register(to) = to else { return None };
    if matches!(size, Size::Byte | Size::Word) || matches!(shift, Shift::Rol | Shift::Ror) {
        return None;
    }
    // A count of zero leaves the flags as they are.
    let needs_status = t.needs_status();
    if needs_status {
        t.save();
    }
    let count = t.read(Guest::RCX, Register::RCX);
    if count != Register::RCX {
        t.e.mov(Size::Double, Register::RCX, count);
    }
    let a = t.read(to, Register::RDX);
    if !needs_status {
        t.e.shift_by_cl(shift, size, a);
        t.write_back(to, Register::RDX);
        t.status = Status::Dead;
        return Some(());
    }
    if shift == Shift::Shr {
        t.e.bit_test(BitTest::Bt, size, a, size.bits() - 1);
        t.e.set_if(Condition::CARRY, Register::RAX);
    } else {
        t.e.store_value(Size::Byte, Register::RAX, 0);
    }
    t.e.shift_by_cl(shift, size, a);
    t.write_back(to, Register::RDX);
    t.e.lahf();
    if shift == Shift::Shl {
        overflow_of_left(t, Register::RDX);
    }
    let unchanged = t.e.label();
    t.e.test_value(Size::Byte, Register::RCX, i32::from(size.bits()) - 1);
    t.e.jump_if(Condition::ZERO, unchanged);
    t.store_status(true);
    t.e.place(unchanged);
    t.status = Status::Saved;
    Some(())
}

fn rotate(t: &mut Translator<'_>, shift: Shift, size: Size, to: Guest, count: u8) {
    let needs_status = t.needs_status();
    if needs_status {
        t.restore();
    }
    let a = t.read(to, Register::RDX);
    t.e.shift(shift, size, a, count);
    t.write_back(to, Register::RDX);
    if !needs_status {
        t.status = Status::Dead;
        return;
    }
    let clears_auxiliary = matches!(t.status, Status::Host { clears_auxiliary: true, .. });
    t.e.lahf();
    // OF of ROL: CF differs from the highest bit; of ROR: the highest two bits differ.
    t.e.set_if(Condition::CARRY, Register::RCX);
    let high = if shift == Shift::Rol { size.bits() - 1 } else { size.bits() - 2 };
    let at_least_double = if size == Size::Quad { size } else { Size::Double };
    t.e.bit_test(BitTest::Bt, at_least_double, a, high);
    t.e.set_if(Condition::CARRY, Register::RAX);
    t.e.arithmetic(Arithmetic::Xor, Size::Byte, Register::RAX, Register::RCX);
    t.store_status(clears_auxiliary);
    t.status = Status::Saved;
}

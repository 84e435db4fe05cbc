//! MOVS, STOS, LODS, SCAS, CMPS without a prefix that repeats them, upwards.

use super::stack::ASIDE;
use crate::address::{Access, Address};
use crate::block::Mode;
use crate::encode::{Arithmetic, Condition, Memory, Register, Size};
use crate::frame;
use crate::operand::size;
use crate::register::Guest;
use crate::translator::Translator;
use iced_x86::{Instruction, Mnemonic, OpKind, Register as Name};

pub(super) fn translate(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    use Mnemonic::*;
    if !i.is_string_instruction() || i.has_rep_prefix() || i.has_repne_prefix() {
        return None;
    }
    match i.mnemonic() {
        Movsb | Movsw | Movsd | Movsq => moves(t, i),
        Stosb | Stosw | Stosd | Stosq => stores(t, i),
        Lodsb | Lodsw | Lodsd | Lodsq => loads(t, i),
        Scasb | Scasw | Scasd | Scasq => scans(t, i),
        Cmpsb | Cmpsw | Cmpsd | Cmpsq => compares(t, i),
        _ => None,
    }
}

/// Operand `n` is where RSI or RDI points, in a segment of which nothing has to be known but what
/// [`begin`] looks at.
fn pointer(t: &Translator<'_>, i: &Instruction, n: u32) -> Option<Guest> {
    let is_plain = t.mode() == Mode::Long && !matches!(i.memory_segment(), Name::FS | Name::GS)
        || matches!(i.memory_segment(), Name::DS | Name::SS);
    match (i.op_kind(n), t.mode()) {
        (OpKind::MemorySegRSI, Mode::Long) | (OpKind::MemorySegESI, Mode::Flat) => {
            is_plain.then_some(Guest::RSI)
        }
        (OpKind::MemoryESRDI, Mode::Long) | (OpKind::MemoryESEDI, Mode::Flat) => Some(Guest::RDI),
        _ => None,
    }
}

/// The size of the element where both operands are in memory.
fn element(i: &Instruction) -> Option<Size> {
    Size::of(i.memory_size().size())
}

/// Leaves the instruction to its handler unless it goes upwards, and ES is flat in 32-bit code.
fn begin(t: &mut Translator<'_>) {
    t.put_off_flags();
    let slow = t.slow_path();
    t.e.arithmetic_value(Arithmetic::Cmp, Size::Quad, frame::STRINGS, 0);
    t.e.jump_if(Condition::ZERO, slow);
}

/// A pointer goes on by an element; the flags stay.
fn advance(t: &mut Translator<'_>, pointer: Guest, size: Size) {
    let word = t.word();
    let held = t.read(pointer, Register::RDX);
    t.e.lea(word, held, Memory::at(held, size.bytes().into()));
    t.write_back(pointer, Register::RDX);
}

/// What one pointer points to in RCX, and where the other does.
fn two_operands(
    t: &mut Translator<'_>,
    size: Size,
    read: Guest,
    (other, access): (Guest, Access),
) -> Memory {
    begin(t);
    let memory = t.operand(Address::from_register(read, 0), size, Access::Read);
    t.e.load(size, Register::RCX, memory);
    t.e.mov(Size::Quad, ASIDE, Register::RCX);
    let memory = t.operand(Address::from_register(other, 0), size, access);
    t.e.load(Size::Quad, Register::RCX, ASIDE);
    memory
}

fn moves(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let size = element(i)?;
    let (to, from) = (pointer(t, i, 0)?, pointer(t, i, 1)?);
    let memory = two_operands(t, size, from, (to, Access::Write));
    t.e.mov(size, memory, Register::RCX);
    advance(t, from, size);
    advance(t, to, size);
    Some(())
}

fn stores(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let size = size(i, 1)?;
    let to = pointer(t, i, 0)?;
    begin(t);
    let memory = t.operand(Address::from_register(to, 0), size, Access::Write);
    let value = t.read(Guest::RAX, Register::RCX);
    t.e.mov(size, memory, value);
    advance(t, to, size);
    Some(())
}

fn loads(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let size = size(i, 0)?;
    let from = pointer(t, i, 1)?;
    begin(t);
    let memory = t.operand(Address::from_register(from, 0), size, Access::Read);
    let a = t.read(Guest::RAX, Register::RDX);
    t.e.load(size, a, memory);
    t.write_back(Guest::RAX, Register::RDX);
    advance(t, from, size);
    Some(())
}

fn scans(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let size = size(i, 0)?;
    let at = pointer(t, i, 1)?;
    begin(t);
    let memory = t.operand(Address::from_register(at, 0), size, Access::Read);
    let a = t.read(Guest::RAX, Register::RDX);
    t.e.arithmetic_load(Arithmetic::Cmp, size, a, memory);
    advance(t, at, size);
    t.flags_are_set(false, None);
    Some(())
}

fn compares(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let size = element(i)?;
    let (first, second) = (pointer(t, i, 0)?, pointer(t, i, 1)?);
    let memory = two_operands(t, size, first, (second, Access::Read));
    t.e.arithmetic_load(Arithmetic::Cmp, size, Register::RCX, memory);
    advance(t, first, size);
    advance(t, second, size);
    t.flags_are_set(false, None);
    Some(())
}

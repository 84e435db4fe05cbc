//! PUSH, POP, LEAVE of 64 bits, in 32-bit code of 32.

use crate::address::{Access, Address};
use crate::encode::{Memory, Register, Size};
use crate::operand::{Operand, operand};
use crate::register::{Guest, general};
use crate::translator::Translator;
use iced_x86::{Code, Instruction, Mnemonic, OpKind};

pub(super) fn translate(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    use Code::*;
    let word = t.word();
    let bytes = i32::from(word.bytes());
    match i.mnemonic() {
        Mnemonic::Push if i.op_kind(0) == OpKind::Register => {
            let from = general(i.op_register(0), word)?;
            let memory = t.operand(Address::on_stack(-bytes), word, Access::Write);
            let value = t.read(from, Register::RCX);
            t.e.mov(word, memory, value);
            move_stack(t, -bytes);
        }
        Mnemonic::Push
            if matches!(i.code(), Pushq_imm8 | Pushq_imm32 | Pushd_imm8 | Pushd_imm32) =>
        {
            let Operand::Value(value) = operand(i, 0, word)? else { return None };
            let value = i32::try_from(value).ok()?;
            let memory = t.operand(Address::on_stack(-bytes), word, Access::Write);
            t.e.store_value(word, memory, value);
            move_stack(t, -bytes);
        }
        Mnemonic::Push if matches!(i.code(), Push_rm64 | Push_rm32) => {
            let from = Address::of(i)?;
            let memory = t.operand(from, word, Access::Read);
            t.e.load(word, Register::RAX, memory);
            t.e.mov(Size::Quad, ASIDE, Register::RAX);
            let memory = t.operand(Address::on_stack(-bytes), word, Access::Write);
            t.e.load(Size::Quad, Register::RCX, ASIDE);
            t.e.mov(word, memory, Register::RCX);
            move_stack(t, -bytes);
        }
        Mnemonic::Pop if i.op_kind(0) == OpKind::Register => {
            let to = general(i.op_register(0), word)?;
            let memory = t.operand(Address::on_stack(0), word, Access::Read);
            t.e.load(word, Register::RAX, memory);
            move_stack(t, bytes);
            t.assign(to, Register::RAX);
        }
        Mnemonic::Leave if matches!(i.code(), Leaveq | Leaved) => {
            let memory = t.operand(Address::from_register(Guest::RBP, 0), word, Access::Read);
            t.e.load(word, Register::RAX, memory);
            let old = t.read(Guest::RBP, Register::RCX);
            t.assign(Guest::RSP, old);
            move_stack(t, bytes);
            t.assign(Guest::RBP, Register::RAX);
        }
        _ => return None,
    }
    Some(())
}

/// Where the stack's alignment leaves room: what must survive the look-up for a push.
pub(super) const ASIDE: Memory =
    Memory { base: Some(Register::RSP), index: None, scale: 0, displacement: 0 };

/// The stack pointer moves; the flags stay. RDX may be lost.
pub(super) fn move_stack(t: &mut Translator<'_>, by: i32) {
    let rsp = t.read(Guest::RSP, Register::RDX);
    t.e.lea(t.word(), rsp, Memory::at(rsp, by));
    t.write_back(Guest::RSP, Register::RDX);
}

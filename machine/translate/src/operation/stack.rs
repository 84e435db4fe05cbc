//! PUSH, POP, LEAVE of 64 bits.

use crate::address::{Access, Address};
use crate::encode::{Memory, Register, Size};
use crate::operand::{Operand, operand};
use crate::register::{Guest, general};
use crate::translator::Translator;
use iced_x86::{Code, Instruction, Mnemonic, OpKind};

pub(super) fn translate(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    match i.mnemonic() {
        Mnemonic::Push if i.op_kind(0) == OpKind::Register => {
            let from = general(i.op_register(0), Size::Quad)?;
            let memory = t.operand(Address::on_stack(-8), Size::Quad, Access::Write);
            let value = t.read(from, Register::RCX);
            t.e.mov(Size::Quad, memory, value);
            move_stack(t, -8);
        }
        Mnemonic::Push if matches!(i.code(), Code::Pushq_imm8 | Code::Pushq_imm32) => {
            let Operand::Value(value) = operand(i, 0, Size::Quad)? else { return None };
            let value = i32::try_from(value).ok()?;
            let memory = t.operand(Address::on_stack(-8), Size::Quad, Access::Write);
            t.e.store_value(Size::Quad, memory, value);
            move_stack(t, -8);
        }
        Mnemonic::Push if i.code() == Code::Push_rm64 => {
            let from = Address::of(i)?;
            let memory = t.operand(from, Size::Quad, Access::Read);
            t.e.load(Size::Quad, Register::RAX, memory);
            t.e.mov(Size::Quad, ASIDE, Register::RAX);
            let memory = t.operand(Address::on_stack(-8), Size::Quad, Access::Write);
            t.e.load(Size::Quad, Register::RCX, ASIDE);
            t.e.mov(Size::Quad, memory, Register::RCX);
            move_stack(t, -8);
        }
        Mnemonic::Pop if i.op_kind(0) == OpKind::Register => {
            let to = general(i.op_register(0), Size::Quad)?;
            let memory = t.operand(Address::on_stack(0), Size::Quad, Access::Read);
            t.e.load(Size::Quad, Register::RAX, memory);
            move_stack(t, 8);
            t.assign(to, Register::RAX);
        }
        Mnemonic::Leave if i.code() == Code::Leaveq => {
            let memory = t.operand(Address::from_register(Guest::RBP, 0), Size::Quad, Access::Read);
            t.e.load(Size::Quad, Register::RAX, memory);
            let old = t.read(Guest::RBP, Register::RCX);
            t.assign(Guest::RSP, old);
            move_stack(t, 8);
            t.assign(Guest::RBP, Register::RAX);
        }
        _ => return None,
    }
    Some(())
}

/// Where the stack's alignment leaves room: what must survive the look-up for a push.
pub(super) const ASIDE: Memory =
    Memory { base: Some(Register::RSP), index: None, scale: 0, displacement: 0 };

/// RSP moves; the flags stay. RDX may be lost.
pub(super) fn move_stack(t: &mut Translator<'_>, by: i32) {
    let rsp = t.read(Guest::RSP, Register::RDX);
    t.e.lea(Size::Quad, rsp, Memory::at(rsp, by));
    t.write_back(Guest::RSP, Register::RDX);
}

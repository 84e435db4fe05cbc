//! Near Jcc, JMP, CALL, RET of 64 bits.

use super::stack::{ASIDE, move_stack};
use super::transfer;
use crate::address::{Access, Address};
use crate::encode::{Memory, Register, Size};
use crate::frame;
use crate::operand::{Operand, operand};
use crate::translator::Translator;
use iced_x86::{Code, Instruction, OpKind};

/// Answers whether the next instruction can be reached from it.
pub(super) fn translate(t: &mut Translator<'_>, i: &Instruction) -> Option<bool> {
    if i.op_count() == 1 && i.op_kind(0) == OpKind::NearBranch64 {
        let target = i.near_branch64() as i64;
        i32::try_from(target).ok()?;
        if i.is_jcc_short_or_near() {
            let condition = t.condition(transfer::condition(i)?);
            t.branch_if(condition, target);
            return Some(true);
        }
        if i.is_jmp_short_or_near() {
            relative_jump(t, target);
            return Some(false);
        }
        if i.is_call_near() {
            relative_call(t, target, i.next_ip() as i32);
            return Some(false);
        }
        return None;
    }
    match i.code() {
        Code::Retnq => ret(t),
        Code::Jmp_rm64 => indirect_jump(t, i)?,
        Code::Call_rm64 => indirect_call(t, i)?,
        _ => return None,
    }
    Some(false)
}

fn check_target(t: &mut Translator<'_>, target: i64) {
    if !t.is_in_page(target) {
        t.save();
        t.address(target);
        t.check_canonical(Register::RAX, Register::RDX);
    }
}

fn relative_jump(t: &mut Translator<'_>, target: i64) {
    check_target(t, target);
    t.branch(target);
}

/// The address at a distance from the start of the block onto the stack.
fn push_return(t: &mut Translator<'_>, next: i32) {
    let memory = t.operand(Address::on_stack(-8), Size::Quad, Access::Write);
    t.e.load(Size::Quad, Register::RDX, frame::IP);
    t.e.lea(Size::Quad, Register::RDX, Memory::at(Register::RDX, next));
    t.e.mov(Size::Quad, memory, Register::RDX);
    move_stack(t, -8);
}

fn relative_call(t: &mut Translator<'_>, target: i64, next: i32) {
    check_target(t, target);
    push_return(t, next);
    t.branch(target);
}

fn ret(t: &mut Translator<'_>) {
    let memory = t.operand(Address::on_stack(0), Size::Quad, Access::Read);
    t.e.load(Size::Quad, Register::RAX, memory);
    t.check_canonical(Register::RAX, Register::RDX);
    move_stack(t, 8);
    t.account();
    t.jump();
}

/// The target into RAX, canonical; flags saved.
fn computed_target(t: &mut Translator<'_>, target: Operand) -> Option<()> {
    match target {
        Operand::Register(guest) => {
            t.save();
            let held = t.read(guest, Register::RAX);
            if held != Register::RAX {
                t.e.mov(Size::Quad, Register::RAX, held);
            }
        }
        Operand::Memory(address) => {
            let memory = t.operand(address, Size::Quad, Access::Read);
            t.e.load(Size::Quad, Register::RAX, memory);
        }
        Operand::Value(_) => return None,
    }
    t.check_canonical(Register::RAX, Register::RDX);
    Some(())
}

fn indirect_jump(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let target = operand(i, 0, Size::Quad)?;
    computed_target(t, target)?;
    t.account();
    t.jump();
    Some(())
}

fn indirect_call(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let target = operand(i, 0, Size::Quad)?;
    computed_target(t, target)?;
    t.e.mov(Size::Quad, ASIDE, Register::RAX);
    push_return(t, i.next_ip() as i32);
    t.account();
    t.e.load(Size::Quad, Register::RAX, ASIDE);
    t.jump();
    Some(())
}

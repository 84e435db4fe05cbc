//! Near Jcc, JMP, CALL, RET of 64 bits, in 32-bit code of 32.

use super::stack::{ASIDE, move_stack};
use super::transfer;
use crate::address::{Access, Address};
use crate::block::Mode;
use crate::encode::{Memory, Register, Size};
use crate::frame;
use crate::operand::{Operand, operand};
use crate::translator::Translator;
use iced_x86::{Code, Instruction, OpKind};

/// Answers whether the next instruction can be reached from it.
pub(super) fn translate(t: &mut Translator<'_>, i: &Instruction) -> Option<bool> {
    if let Some(target) = relative_target(i) {
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
        Code::Retnq | Code::Retnd => ret(t),
        Code::Jmp_rm64 | Code::Jmp_rm32 => indirect_jump(t, i)?,
        Code::Call_rm64 | Code::Call_rm32 => indirect_call(t, i)?,
        _ => return None,
    }
    Some(false)
}

/// The distance of a branch's target from the start of the block; in 32-bit code, modulo 2^32.
fn relative_target(i: &Instruction) -> Option<i64> {
    if i.op_count() != 1 {
        return None;
    }
    match i.op_kind(0) {
        OpKind::NearBranch64 => Some(i.near_branch64() as i64),
        OpKind::NearBranch32 => Some(i64::from(i.near_branch32() as i32)),
        _ => None,
    }
}

fn check_target(t: &mut Translator<'_>, target: i64) {
    if t.mode() == Mode::Long && !t.is_in_page(target) {
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
    let word = t.word();
    let bytes = i32::from(word.bytes());
    let memory = t.operand(Address::on_stack(-bytes), word, Access::Write);
    t.e.load(word, Register::RDX, frame::IP);
    t.e.lea(word, Register::RDX, Memory::at(Register::RDX, next));
    t.e.mov(word, memory, Register::RDX);
    move_stack(t, -bytes);
}

fn relative_call(t: &mut Translator<'_>, target: i64, next: i32) {
    check_target(t, target);
    push_return(t, next);
    t.branch(target);
}

fn ret(t: &mut Translator<'_>) {
    let word = t.word();
    let memory = t.operand(Address::on_stack(0), word, Access::Read);
    t.e.load(word, Register::RAX, memory);
    t.check_canonical(Register::RAX, Register::RDX);
    move_stack(t, word.bytes().into());
    t.account();
    t.jump();
}

/// The target into RAX, canonical; flags saved.
fn computed_target(t: &mut Translator<'_>, target: Operand) -> Option<()> {
    let word = t.word();
    match target {
        Operand::Register(guest) => {
            t.save();
            let held = t.read(guest, Register::RAX);
            if held != Register::RAX {
                t.e.mov(word, Register::RAX, held);
            }
        }
        Operand::Memory(address) => {
            let memory = t.operand(address, word, Access::Read);
            t.e.load(word, Register::RAX, memory);
        }
        Operand::Value(_) => return None,
    }
    t.check_canonical(Register::RAX, Register::RDX);
    Some(())
}

fn indirect_jump(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let target = operand(i, 0, t.word())?;
    computed_target(t, target)?;
    t.account();
    t.jump();
    Some(())
}

fn indirect_call(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let target = operand(i, 0, t.word())?;
    computed_target(t, target)?;
    t.e.mov(Size::Quad, ASIDE, Register::RAX);
    push_return(t, i.next_ip() as i32);
    t.account();
    t.e.load(Size::Quad, Register::RAX, ASIDE);
    t.jump();
    Some(())
}

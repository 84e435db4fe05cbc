//! Near JMP, Jcc, CALL, RET, LOOP, JCXZ.

use super::stack::SS;
use super::transfer::{by_condition, condition_code};
use crate::execute::binding::{Binding, Boundary, Handler};
use crate::execute::stack;
use crate::guest::Sensitive;
use crate::memory::Access;
use crate::operation::Op;
use crate::operation::decode::{CodeSize, Cost, is_memory, width};
use crate::state::Registers;
use crate::width::{BLOCK_IP, RCX, RSP, Width};
use crate::{Bus, Cpu, Stop};
use arch::segment::SegmentRegister;
use iced_x86::{Code, Instruction, Mnemonic, OpKind};

#[inline(always)]
fn relative(cpu: &mut Cpu, op: &Op) -> Result<(), Stop> {
    let target = cpu.registers.next_ip(op).wrapping_add(op.immediate);
    cpu.registers.jump(op, target)
}

fn jcc<const CODE: u8>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    if cpu.registers.flags.condition(CODE) { relative(cpu, op) } else { Ok(()) }
}

#[inline(never)]
pub(super) fn jmp(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    relative(cpu, op)
}

fn jmp_r<W: Width>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let target = W::from_register(&cpu.registers.gpr, op.a).zero_extend();
    cpu.registers.jump(op, target)
}

fn jmp_m<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let target = cpu.read::<W>(bus, op)?.zero_extend();
    cpu.registers.jump(op, target)
}

/// The fault that a push would raise: of a call's two, that of the stack comes first.
#[cold]
fn push_fault<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Option<Stop> {
    let is_long = op.has(Op::LONG);
    let new = cpu.registers.gpr[RSP].wrapping_sub(W::BYTES as u64);
    stack::stack_linear(cpu, is_long, new, W::BYTES, Access::Write)
        .and_then(|at| cpu.locate_linear(bus, at, W::BYTES, Access::Write, SS))
        .err()
}

#[inline(always)]
fn call_to<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op, target: u64) -> Result<(), Stop> {
    let target = match cpu.registers.checked_target(op, target) {
        Ok(target) => target,
        Err(stop) => return Err(push_fault::<W>(cpu, bus, op).unwrap_or(stop)),
    };
    let back = cpu.registers.next_ip(op);
    stack::push(cpu, bus, op, W::truncate(back))?;
    cpu.pending.forget_code_change();
    cpu.registers.ip = target;
    Err(Stop::BRANCH)
}

#[inline(never)]
pub(super) fn call<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let target = cpu.registers.next_ip(op).wrapping_add(op.immediate);
    call_to::<W>(cpu, bus, op, target)
}

fn call_r<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let target = W::from_register(&cpu.registers.gpr, op.a).zero_extend();
    call_to::<W>(cpu, bus, op, target)
}

fn call_m<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let target = cpu.read::<W>(bus, op)?.zero_extend();
    call_to::<W>(cpu, bus, op, target)
}

#[inline(never)]
pub(super) fn ret<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let target = stack::peek_stack::<W>(cpu, bus, op, 0)?.zero_extend();
    let target = cpu.registers.checked_target(op, target)?;
    cpu.registers.move_stack(op, W::BYTES as u64 + (op.immediate & 0xFFFF));
    cpu.registers.ip = target;
    Err(Stop::BRANCH)
}

/// LOOP, LOOPE, LOOPNE, JCXZ count in CX, ECX or RCX by address size.
fn count_and_jump(cpu: &mut Cpu, op: &Op, wanted: Option<bool>) -> Result<(), Stop> {
    let mask = counter_mask(op);
    let count = cpu.registers.gpr[RCX].wrapping_sub(1) & mask;
    let flag_allows = wanted.is_none_or(|zero| cpu.registers.flags.zero() == zero);
    if count != 0 && flag_allows {
        let target = cpu.registers.next_ip(op).wrapping_add(op.immediate);
        cpu.registers.ip = cpu.registers.checked_target(op, target)?;
        set_counter(cpu, op, count);
        return Err(Stop::BRANCH);
    }
    set_counter(cpu, op, count);
    Ok(())
}

fn counter_mask(op: &Op) -> u64 {
    u64::MAX >> op.c
}

fn set_counter(cpu: &mut Cpu, op: &Op, count: u64) {
    match op.c {
        48 => cpu.registers.gpr[RCX] = cpu.registers.gpr[RCX] & !0xFFFF | count,
        _ => cpu.registers.gpr[RCX] = count,
    }
}

/// The counter's width is the address size, which the operand layout does not carry.
macro_rules! counting {
    ($name:ident, $wanted:expr) => {
        fn $name<const SHIFT: u8>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
            count_and_jump(cpu, &Op { c: SHIFT, ..*op }, $wanted)
        }
    };
}

counting!(loop_always, None);
counting!(loop_equal, Some(true));
counting!(loop_not_equal, Some(false));

fn jcxz<const SHIFT: u8>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    if cpu.registers.gpr[RCX] & u64::MAX >> SHIFT == 0 { relative(cpu, op) } else { Ok(()) }
}

fn counted(i: &Instruction) -> Option<Handler> {
    use Code::*;
    Some(match i.code() {
        Loop_rel8_16_CX | Loop_rel8_32_CX => loop_always::<48>,
        Loop_rel8_16_ECX | Loop_rel8_32_ECX | Loop_rel8_64_ECX => loop_always::<32>,
        Loop_rel8_16_RCX | Loop_rel8_64_RCX => loop_always::<0>,
        Loope_rel8_16_CX | Loope_rel8_32_CX => loop_equal::<48>,
        Loope_rel8_16_ECX | Loope_rel8_32_ECX | Loope_rel8_64_ECX => loop_equal::<32>,
        Loope_rel8_16_RCX | Loope_rel8_64_RCX => loop_equal::<0>,
        Loopne_rel8_16_CX | Loopne_rel8_32_CX => loop_not_equal::<48>,
        Loopne_rel8_16_ECX | Loopne_rel8_32_ECX | Loopne_rel8_64_ECX => loop_not_equal::<32>,
        Loopne_rel8_16_RCX | Loopne_rel8_64_RCX => loop_not_equal::<0>,
        Jcxz_rel8_16 | Jcxz_rel8_32 => jcxz::<48>,
        Jecxz_rel8_16 | Jecxz_rel8_32 | Jecxz_rel8_64 => jcxz::<32>,
        Jrcxz_rel8_16 | Jrcxz_rel8_64 => jcxz::<0>,
        _ => return None,
    })
}

/// Bytes of a near branch's return address: the operand size.
fn branch_width(i: &Instruction) -> usize {
    match i.op_kind(0) {
        OpKind::NearBranch16 => 2,
        OpKind::NearBranch32 => 4,
        OpKind::NearBranch64 => 8,
        _ => width(i, 0),
    }
}

fn near(i: &Instruction) -> Option<Handler> {
    use Code::*;
    let is_relative =
        matches!(i.op_kind(0), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64);
    let w = branch_width(i);
    macro_rules! wide {
        ($handler:ident) => {
            match w {
                2 => $handler::<u16>,
                4 => $handler::<u32>,
                _ => $handler::<u64>,
            }
        };
    }
    Some(match i.mnemonic() {
        Mnemonic::Jmp if is_relative => jmp,
        Mnemonic::Jmp if is_far(i) => return None,
        Mnemonic::Jmp if is_memory(i, 0) => wide!(jmp_m),
        Mnemonic::Jmp => wide!(jmp_r),
        Mnemonic::Call if is_relative => wide!(call),
        Mnemonic::Call if is_far(i) => return None,
        Mnemonic::Call if is_memory(i, 0) => wide!(call_m),
        Mnemonic::Call => wide!(call_r),
        Mnemonic::Ret => match i.code() {
            Retnw | Retnw_imm16 => ret::<u16>,
            Retnd | Retnd_imm16 => ret::<u32>,
            _ => ret::<u64>,
        },
        _ => return None,
    })
}

/// JMP and CALL with a selector.
pub(super) fn is_far(i: &Instruction) -> bool {
    use Code::*;
    matches!(
        i.code(),
        Jmp_ptr1616
            | Jmp_ptr1632
            | Jmp_m1616
            | Jmp_m1632
            | Jmp_m1664
            | Call_ptr1616
            | Call_ptr1632
            | Call_m1616
            | Call_m1632
            | Call_m1664
    )
}

pub(super) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    if i.is_jcc_short_or_near() {
        return Binding::branches(by_condition!(condition_code(i)?, jcc), Boundary::Condition);
    }
    if let Some(handler) = near(i).or_else(|| counted(i)) {
        return Binding::branches(handler, Boundary::Last);
    }
    match i.mnemonic() {
        Mnemonic::Pause => {
            Some(Binding { handler: pause, boundary: Boundary::Alone, cost: Cost::Pause })
        }
        _ => None,
    }
}

fn pause(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.before(bus, op, Sensitive::Pause)
}

impl Registers {
    /// The instruction pointer after `op`.
    #[inline(always)]
    pub(crate) fn next_ip(&self, op: &Op) -> u64 {
        self.gpr[BLOCK_IP as usize].wrapping_add(op.end as u64)
    }
}

impl Registers {
    #[inline(always)]
    pub(crate) fn checked_target(&self, op: &Op, target: u64) -> Result<u64, Stop> {
        if op.has(Op::LONG) {
            // AMD's processors heed the operand-size prefix of near branches, Intel's do not.
            if op.has(Op::SIZE_16) {
                return Ok(target & 0xFFFF);
            }
            if (target as i64) << 16 >> 16 != target as i64 {
                return Err(Stop::GENERAL_PROTECTION);
            }
            return Ok(target);
        }
        let target = target & if op.has(Op::SIZE_16) { 0xFFFF } else { 0xFFFF_FFFF };
        if target > self.segment(SegmentRegister::Cs).limit as u64 {
            return Err(Stop::GENERAL_PROTECTION);
        }
        Ok(target)
    }
}

impl Registers {
    /// Continues at an instruction pointer of the operation's size; #GP(0) outside the code segment
    /// or if not canonical.
    #[inline(always)]
    pub(crate) fn jump(&mut self, op: &Op, target: u64) -> Result<(), Stop> {
        self.ip = self.checked_target(op, target)?;
        Err(Stop::BRANCH)
    }
}

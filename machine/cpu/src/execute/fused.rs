//! Pairs of instructions of 64-bit code that are executed as one operation: CMP and TEST with the
//! conditional branch after them, two PUSHes, two POPs. The second instruction stays in its place
//! behind, so a fused operation that answers "go on" has merely done the first: it does so wherever
//! the second might fault.

use super::arithmetic::{self, Binary, Cmp, Test};
use super::flat;
use super::transfer::{by_condition, condition_code};
use crate::execute::binding::{Bound, Handler};
use crate::operation::Op;
use crate::operation::decode::{CodeSize, is_memory, is_register, width};
use crate::width::{BLOCK_IP, RSP, Width};
use crate::{Bus, Cpu, Stop};
use iced_x86::{Instruction, Mnemonic, OpKind};

/// Branches to `relative` to the start of the block, if the condition holds.
#[inline(always)]
fn branch<const CODE: u8>(cpu: &mut Cpu, relative: i32) -> Result<(), Stop> {
    if !cpu.registers.flags.condition(CODE) {
        return Err(Stop::FUSED_THROUGH);
    }
    let target = cpu.registers.gpr[BLOCK_IP as usize].wrapping_add(relative as i64 as u64);
    if (target as i64) << 16 >> 16 != target as i64 {
        // The branch itself raises the fault.
        return Ok(());
    }
    cpu.registers.ip = target;
    Err(Stop::FUSED_BRANCH)
}

fn rr<W: Width, O: Binary, const CODE: u8>(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    let (a, b) =
        (W::from_register(&cpu.registers.gpr, op.a), W::from_register(&cpu.registers.gpr, op.b));
    O::apply(&mut cpu.registers.flags, a, b);
    branch::<CODE>(cpu, op.displacement)
}

fn ri<W: Width, O: Binary, const CODE: u8>(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    let a = W::from_register(&cpu.registers.gpr, op.a);
    O::apply(&mut cpu.registers.flags, a, W::truncate(op.immediate));
    branch::<CODE>(cpu, op.displacement)
}

/// Where a compare with memory keeps the branch's target: above its own immediate.
fn above(op: &Op) -> i32 {
    (op.immediate >> 32) as i32
}

fn rm<W: Width, O: Binary, const CODE: u8>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    let Some(b) = flat::flat_read::<W>(cpu, bus, op) else {
        return arithmetic::rm::<W, O>(cpu, bus, op);
    };
    O::apply(&mut cpu.registers.flags, W::from_register(&cpu.registers.gpr, op.a), b);
    branch::<CODE>(cpu, above(op))
}

fn mr<W: Width, O: Binary, const CODE: u8>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    let Some(a) = flat::flat_read::<W>(cpu, bus, op) else {
        return arithmetic::mr::<W, O>(cpu, bus, op);
    };
    O::apply(&mut cpu.registers.flags, a, W::from_register(&cpu.registers.gpr, op.b));
    branch::<CODE>(cpu, above(op))
}

fn mi<W: Width, O: Binary, const CODE: u8>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    let immediate = op.immediate as i32 as i64 as u64;
    let Some(a) = flat::flat_read::<W>(cpu, bus, op) else {
        return arithmetic::mi::<W, O>(cpu, bus, &Op { immediate, ..*op });
    };
    O::apply(&mut cpu.registers.flags, a, W::truncate(immediate));
    branch::<CODE>(cpu, above(op))
}

/// PUSH of register `a`, then of `b`.
fn push_push(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    flat::push_r(cpu, bus, op)?;
    let (value, new) = (cpu.registers.gpr[op.b as usize], cpu.registers.gpr[RSP].wrapping_sub(8));
    if flat::flat_write(cpu, bus, new, value).is_none() {
        return Ok(());
    }
    cpu.registers.gpr[RSP] = new;
    Err(Stop::FUSED_THROUGH)
}

/// POP of register `a`, then of `b`.
fn pop_pop(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    flat::pop_r(cpu, bus, op)?;
    let Some(value) = flat::top_of_stack(cpu, bus) else { return Ok(()) };
    cpu.registers.gpr[RSP] = cpu.registers.gpr[RSP].wrapping_add(8);
    cpu.registers.gpr[op.b as usize] = value;
    Err(Stop::FUSED_THROUGH)
}

/// What an instruction can be in a fused pair.
#[derive(Clone, Copy)]
pub enum Role {
    /// A compare; the handler for a branch on a condition code.
    Compare(fn(u8) -> Handler),
    /// A branch on this condition code.
    Branch(u8),
    /// PUSH or POP of a register.
    Push,
    /// POP of a register.
    Pop,
}

/// The role of an instruction of 64-bit code.
pub fn role(i: &Instruction, op: &Op, size: CodeSize) -> Option<Role> {
    if size != CodeSize::Bits64 {
        return None;
    }
    if i.is_jcc_short_or_near() && i.op_kind(0) == OpKind::NearBranch64 {
        return condition_code(i).map(Role::Branch);
    }
    match i.mnemonic() {
        Mnemonic::Push if is_wide_register(i) => Some(Role::Push),
        Mnemonic::Pop if is_wide_register(i) => Some(Role::Pop),
        Mnemonic::Cmp | Mnemonic::Test if !op.has(Op::MEMORY) || flat::is_flat(op) => compare(i),
        _ => None,
    }
}

fn is_wide_register(i: &Instruction) -> bool {
    is_register(i, 0) && i.op_register(0).is_gpr64()
}

fn compare(i: &Instruction) -> Option<Role> {
    macro_rules! pick {
        ($form:ident, $operation:ty) => {
            match width(i, 0) {
                1 => |code| by_condition!(code, $form, u8, $operation),
                4 => |code| by_condition!(code, $form, u32, $operation),
                8 => |code| by_condition!(code, $form, u64, $operation),
                _ => return None,
            }
        };
    }
    let forms = (is_memory(i, 0), is_memory(i, 1), is_register(i, 1));
    Some(Role::Compare(match (i.mnemonic(), forms) {
        (Mnemonic::Cmp, (false, false, true)) => pick!(rr, Cmp),
        (Mnemonic::Cmp, (false, false, false)) => pick!(ri, Cmp),
        (Mnemonic::Cmp, (false, true, _)) => pick!(rm, Cmp),
        (Mnemonic::Cmp, (true, _, true)) => pick!(mr, Cmp),
        (Mnemonic::Cmp, (true, _, false)) => pick!(mi, Cmp),
        (_, (false, false, true)) => pick!(rr, Test),
        (_, (false, false, false)) => pick!(ri, Test),
        (_, (true, _, false)) => pick!(mi, Test),
        _ => return None,
    }))
}

/// The operation that does `first` and then `second`, if there is one.
pub fn fuse(first: &Bound, roles: (Option<Role>, Option<Role>), second: &Op) -> Option<Bound> {
    let op = &first.op;
    match roles {
        (Some(Role::Compare(handler)), Some(Role::Branch(condition))) => {
            let target = (second.end as u64).wrapping_add(second.immediate);
            let target = i32::try_from(target as i64).ok()?;
            let fused = if op.has(Op::MEMORY) {
                let low = op.immediate & 0xFFFF_FFFF;
                Op { immediate: (target as u32 as u64) << 32 | low, ..*op }
            } else {
                Op { displacement: target, ..*op }
            };
            Some(Bound { handler: handler(condition), op: fused })
        }
        (Some(Role::Push), Some(Role::Push)) => {
            Some(Bound { handler: push_push, op: Op { b: second.a, ..*op } })
        }
        (Some(Role::Pop), Some(Role::Pop)) => {
            Some(Bound { handler: pop_pop, op: Op { b: second.a, ..*op } })
        }
        _ => None,
    }
}

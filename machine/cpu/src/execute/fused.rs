//! CMP and TEST of registers and immediates in 64-bit code, together with the conditional branch
//! after them. The branch stays in its place behind, so a fused operation that answers "go on" has
//! merely compared.

use super::arithmetic::{Binary, Cmp, Test};
use super::transfer::{by_condition, condition_code};
use crate::decode::{CodeSize, is_memory, is_register, width};
use crate::op::{Handler, Op};
use crate::width::{BLOCK_IP, Width};
use crate::{Bus, Cpu, Stop};
use iced_x86::{Instruction, Mnemonic, OpKind};

#[inline(always)]
fn branch<const CODE: u8>(cpu: &mut Cpu, op: &Op) -> Result<(), Stop> {
    if !cpu.flags.condition(CODE) {
        return Err(Stop::FUSED_THROUGH);
    }
    let target = cpu.gpr[BLOCK_IP as usize].wrapping_add(op.displacement as i64 as u64);
    if (target as i64) << 16 >> 16 != target as i64 {
        // The branch itself raises the fault.
        return Ok(());
    }
    cpu.ip = target;
    Err(Stop::FUSED_BRANCH)
}

fn rr<W: Width, O: Binary, const CODE: u8>(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    let (a, b) = (W::from_register(&cpu.gpr, op.a), W::from_register(&cpu.gpr, op.b));
    O::apply(&mut cpu.flags, a, b);
    branch::<CODE>(cpu, op)
}

fn ri<W: Width, O: Binary, const CODE: u8>(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    let a = W::from_register(&cpu.gpr, op.a);
    O::apply(&mut cpu.flags, a, W::truncate(op.immediate));
    branch::<CODE>(cpu, op)
}

/// What an instruction can be in a fused pair.
#[derive(Clone, Copy)]
pub enum Role {
    /// A compare; the handler for a branch on a condition code.
    Compare(fn(u8) -> Handler),
    /// A branch on this condition code.
    Branch(u8),
}

/// The role of an instruction of 64-bit code.
pub fn role(i: &Instruction, size: CodeSize) -> Option<Role> {
    if size != CodeSize::Bits64 {
        return None;
    }
    if i.is_jcc_short_or_near() && i.op_kind(0) == OpKind::NearBranch64 {
        return condition_code(i).map(Role::Branch);
    }
    if i.op_count() != 2 || !is_register(i, 0) || is_memory(i, 1) {
        return None;
    }
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
    Some(Role::Compare(match (i.mnemonic(), is_register(i, 1)) {
        (Mnemonic::Cmp, true) => pick!(rr, Cmp),
        (Mnemonic::Cmp, false) => pick!(ri, Cmp),
        (Mnemonic::Test, true) => pick!(rr, Test),
        (Mnemonic::Test, false) => pick!(ri, Test),
        _ => return None,
    }))
}

/// The compare with the branch that follows it.
pub fn fuse(compare: &Op, handler: fn(u8) -> Handler, branch: &Op, condition: u8) -> Option<Op> {
    let target = (branch.end as u64).wrapping_add(branch.immediate);
    let displacement = i32::try_from(target as i64).ok()?;
    Some(Op { handler: handler(condition), displacement, ..*compare })
}

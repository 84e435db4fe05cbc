//! The most frequent forms of 64-bit code once more, without the decisions that such code never
//! needs: addresses of 64 bits without a segment's base, operands in RAM that the TLB knows, stores
//! to lines that nobody watches. Whatever is not so is done by the general handler, which defines
//! what the instruction does.

use super::arithmetic::{self, Add, And, Binary, Cmp, Or, Sub, Test, Xor};
use super::{branch, stack, transfer};
use crate::execute::binding::{Handler, sized};
use crate::memory::Access;
use crate::operation::decode::{CodeSize, is_memory, is_register, width};
use crate::operation::{FLAT, FLAT_STACK, Op};
use crate::state::Registers;
use crate::width::{BLOCK_IP, RSP, Width};
use crate::{Bus, Cpu, Stop};
use iced_x86::{Instruction, Mnemonic, OpKind};

#[inline(always)]
pub(super) fn flat_read<W: Width>(cpu: &Cpu, bus: &Bus<'_>, op: &Op) -> Option<W> {
    let at = cpu.translation.ram_known(cpu.registers.flat_address(op), W::BYTES, Access::Read)?;
    bus.memory.ram.get(at..at + W::BYTES).map(W::from_bytes)
}

#[inline(always)]
pub(super) fn flat_write<W: Width>(
    cpu: &Cpu,
    bus: &mut Bus<'_>,
    linear: u64,
    value: W,
) -> Option<()> {
    let at = cpu.translation.ram_known(linear, W::BYTES, Access::Write)?;
    bus.memory.unwatched_mut(at, W::BYTES).map(|bytes| value.to_bytes(bytes))
}

fn mov_rm<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let Some(value) = flat_read::<W>(cpu, bus, op) else {
        return transfer::mov_rm::<W>(cpu, bus, op);
    };
    value.to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

fn mov_mr<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let value = W::from_register(&cpu.registers.gpr, op.b);
    match flat_write(cpu, bus, cpu.registers.flat_address(op), value) {
        Some(()) => Ok(()),
        None => transfer::mov_mr::<W>(cpu, bus, op),
    }
}

fn mov_mi<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    match flat_write(cpu, bus, cpu.registers.flat_address(op), W::truncate(op.immediate)) {
        Some(()) => Ok(()),
        None => transfer::mov_mi::<W>(cpu, bus, op),
    }
}

fn extend_m<D: Width, S: Width, const SIGNED: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    let Some(source) = flat_read::<S>(cpu, bus, op) else {
        return transfer::extend_m::<D, S, SIGNED>(cpu, bus, op);
    };
    let wide = if SIGNED { source.sign_extend() } else { source.zero_extend() };
    D::truncate(wide).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

fn lea<W: Width>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    W::truncate(cpu.registers.flat_address(op)).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

/// Register and memory.
fn rm<W: Width, O: Binary>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let Some(b) = flat_read::<W>(cpu, bus, op) else {
        return arithmetic::rm::<W, O>(cpu, bus, op);
    };
    let a = W::from_register(&cpu.registers.gpr, op.a);
    let result = O::apply(&mut cpu.registers.flags, a, b);
    if O::STORES {
        result.to_register(&mut cpu.registers.gpr, op.a);
    }
    Ok(())
}

/// Memory and the operand `b`; `None` leaves everything to the general handler.
#[inline(always)]
fn memory_operand<W: Width, O: Binary>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    b: W,
) -> Option<()> {
    if !O::STORES {
        let a = flat_read::<W>(cpu, bus, op)?;
        O::apply(&mut cpu.registers.flags, a, b);
        return Some(());
    }
    let at = cpu.translation.ram_known(cpu.registers.flat_address(op), W::BYTES, Access::Write)?;
    let bytes = bus.memory.unwatched_mut(at, W::BYTES)?;
    O::apply(&mut cpu.registers.flags, W::from_bytes(bytes), b).to_bytes(bytes);
    Some(())
}

fn mr<W: Width, O: Binary>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let b = W::from_register(&cpu.registers.gpr, op.b);
    match memory_operand::<W, O>(cpu, bus, op, b) {
        Some(()) => Ok(()),
        None => arithmetic::mr::<W, O>(cpu, bus, op),
    }
}

fn mi<W: Width, O: Binary>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    match memory_operand::<W, O>(cpu, bus, op, W::truncate(op.immediate)) {
        Some(()) => Ok(()),
        None => arithmetic::mi::<W, O>(cpu, bus, op),
    }
}

#[inline(always)]
pub(super) fn push_r(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let value = cpu.registers.gpr[op.a as usize];
    let new = cpu.registers.gpr[RSP].wrapping_sub(8);
    match flat_write(cpu, bus, new, value) {
        Some(()) => cpu.registers.gpr[RSP] = new,
        None => return stack::push_r::<u64>(cpu, bus, op),
    }
    Ok(())
}

#[inline(always)]
pub(super) fn pop_r(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let Some(value) = top_of_stack(cpu, bus) else {
        return stack::pop_r::<u64>(cpu, bus, op);
    };
    cpu.registers.gpr[RSP] = cpu.registers.gpr[RSP].wrapping_add(8);
    cpu.registers.gpr[op.a as usize] = value;
    Ok(())
}

#[inline(always)]
pub(super) fn top_of_stack(cpu: &Cpu, bus: &Bus<'_>) -> Option<u64> {
    let at = cpu.translation.ram_known(cpu.registers.gpr[RSP], 8, Access::Read)?;
    bus.memory.ram.get(at..at + 8).map(u64::from_bytes)
}

#[inline(always)]
fn is_canonical(linear: u64) -> bool {
    (linear as i64) << 16 >> 16 == linear as i64
}

/// Where a relative branch goes.
#[inline(always)]
fn target(cpu: &Cpu, op: &Op) -> u64 {
    cpu.registers.gpr[BLOCK_IP as usize].wrapping_add(op.end as u64).wrapping_add(op.immediate)
}

fn jcc<const CODE: u8>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    if cpu.registers.flags.condition(CODE) { jmp(cpu, bus, op) } else { Ok(()) }
}

#[inline(always)]
fn jmp(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let target = target(cpu, op);
    if !is_canonical(target) {
        return branch::jmp(cpu, bus, op);
    }
    cpu.registers.ip = target;
    Err(Stop::BRANCH)
}

fn call(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let target = target(cpu, op);
    let new = cpu.registers.gpr[RSP].wrapping_sub(8);
    let back = cpu.registers.next_ip(op);
    if !is_canonical(target) || flat_write(cpu, bus, new, back).is_none() {
        return branch::call::<u64>(cpu, bus, op);
    }
    cpu.registers.gpr[RSP] = new;
    cpu.registers.ip = target;
    Err(Stop::BRANCH)
}

fn ret(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    match top_of_stack(cpu, bus) {
        Some(target) if is_canonical(target) => {
            cpu.registers.gpr[RSP] = cpu.registers.gpr[RSP].wrapping_add(8);
            cpu.registers.ip = target;
            Err(Stop::BRANCH)
        }
        _ => branch::ret::<u64>(cpu, bus, op),
    }
}

fn binary<O: Binary>(i: &Instruction) -> Option<Handler> {
    let w = width(i, 0);
    Some(match (is_memory(i, 0), is_memory(i, 1), is_register(i, 1)) {
        (false, true, _) => sized!(w, rm, O),
        (true, _, true) => sized!(w, mr, O),
        (true, _, _) => sized!(w, mi, O),
        _ => return None,
    })
}

fn extend<const SIGNED: bool>(i: &Instruction) -> Option<Handler> {
    Some(match (width(i, 0), width(i, 1)) {
        (4, 1) => extend_m::<u32, u8, SIGNED>,
        (4, 2) => extend_m::<u32, u16, SIGNED>,
        (8, 1) => extend_m::<u64, u8, SIGNED>,
        (8, 2) => extend_m::<u64, u16, SIGNED>,
        (8, 4) => extend_m::<u64, u32, SIGNED>,
        _ => return None,
    })
}

fn with_memory(i: &Instruction) -> Option<Handler> {
    let w = width(i, 0);
    match i.mnemonic() {
        Mnemonic::Mov if is_memory(i, 1) => Some(sized!(w, mov_rm)),
        Mnemonic::Mov if is_register(i, 1) => Some(sized!(w, mov_mr)),
        Mnemonic::Mov => Some(sized!(w, mov_mi)),
        Mnemonic::Movzx => extend::<false>(i),
        Mnemonic::Movsx | Mnemonic::Movsxd => extend::<true>(i),
        Mnemonic::Lea if w == 8 => Some(lea::<u64>),
        Mnemonic::Lea if w == 4 => Some(lea::<u32>),
        Mnemonic::Add => binary::<Add>(i),
        Mnemonic::Sub => binary::<Sub>(i),
        Mnemonic::And => binary::<And>(i),
        Mnemonic::Or => binary::<Or>(i),
        Mnemonic::Xor => binary::<Xor>(i),
        Mnemonic::Cmp => binary::<Cmp>(i),
        Mnemonic::Test => binary::<Test>(i),
        _ => None,
    }
}

fn with_stack(i: &Instruction) -> Option<Handler> {
    let is_wide = is_register(i, 0) && width(i, 0) == 8;
    match i.mnemonic() {
        Mnemonic::Push if is_wide => Some(push_r),
        Mnemonic::Pop if is_wide => Some(pop_r),
        Mnemonic::Ret if i.code() == iced_x86::Code::Retnq => Some(ret),
        _ => None,
    }
}

fn relative(i: &Instruction) -> Option<Handler> {
    if i.is_jcc_short_or_near() {
        return Some(transfer::by_condition!(transfer::condition_code(i)?, jcc));
    }
    match i.mnemonic() {
        Mnemonic::Jmp => Some(jmp),
        Mnemonic::Call => Some(call),
        _ => None,
    }
}

/// Whether an operation's memory operand has an address of 64 bits and no segment's base.
pub fn is_flat(op: &Op) -> bool {
    matches!(op.segment, FLAT | FLAT_STACK) && op.address_shift == 0
}

/// The handler to use instead of the general one of a bound operation, if there is one.
pub fn bind(i: &Instruction, op: &Op, size: CodeSize) -> Option<Handler> {
    if size != CodeSize::Bits64 || op.has(Op::LOCK) {
        return None;
    }
    if op.has(Op::MEMORY) {
        let is_plain = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory) && !is_special(i);
        return if is_flat(op) && is_plain { with_memory(i) } else { None };
    }
    if i.op_count() > 0 && i.op_kind(0) == OpKind::NearBranch64 {
        return relative(i);
    }
    with_stack(i)
}

/// MOV to and from segment registers, and absolute addresses, have handlers of their own.
fn is_special(i: &Instruction) -> bool {
    let is_segment = |n| is_register(i, n) && i.op_register(n).is_segment_register();
    is_segment(0) || is_segment(1) || crate::operation::decode::is_absolute(i)
}

impl Registers {
    #[inline(always)]
    fn flat_address(&self, op: &Op) -> u64 {
        let base = self.gpr[op.base as usize];
        let index = self.gpr[op.index as usize] << (op.scale & 3);
        base.wrapping_add(index).wrapping_add(op.displacement as i64 as u64)
    }
}

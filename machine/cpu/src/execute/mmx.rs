//! MMX instructions. Each one makes the x87 register stack full with its top at zero, which EMMS
//! undoes. [APM1 "64-Bit Media Programming"]

use super::sse::handler;
use super::sse_move::masked_store;
use crate::execute::binding::{Binding, Handler, sized};
use crate::execute::x87::unit;
use crate::operation::Op;
use crate::operation::decode::{CodeSize, Cost, is_memory, is_register, width};
use crate::vector::{integer, mmx, multiply, shift};
use crate::width::Width;
use crate::{Bus, Cpu, Stop};
use arch::control::Cr0;
use iced_x86::{Code, Instruction, Mnemonic};

/// #UD with CR0.EM, #NM with CR0.TS, #MF with an x87 exception pending.
#[inline(always)]
fn check_mmx(cpu: &Cpu) -> Result<(), Stop> {
    if cpu.control.cr0().contains(Cr0::EMULATION) {
        return Err(Stop::INVALID_OPCODE);
    }
    if cpu.control.cr0().contains(Cr0::TASK_SWITCHED) {
        return Err(Stop::DEVICE_NOT_AVAILABLE);
    }
    unit::check_pending(cpu)
}

/// The register `op.b` or 8 bytes of memory.
#[inline(always)]
fn source(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<u64, Stop> {
    if op.has(Op::MEMORY) { cpu.read(bus, op) } else { Ok(cpu.registers.x87.mmx(op.b)) }
}

#[inline(always)]
fn binary(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u64, u64) -> u64,
) -> Result<(), Stop> {
    check_mmx(cpu)?;
    let b = source(cpu, bus, op)?;
    let value = function(cpu.registers.x87.mmx(op.a), b);
    cpu.registers.x87.set_mmx(op.a, value);
    Ok(())
}

/// Lanes that do not interact: the XMM form on the low half.
#[inline(always)]
fn lanes(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, u128) -> u128,
) -> Result<(), Stop> {
    binary(cpu, bus, op, |a, b| function(a.into(), b.into()) as u64)
}

/// PUNPCKL reads four bytes of memory.
#[inline(always)]
fn low_half(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u64, u64) -> u64,
) -> Result<(), Stop> {
    check_mmx(cpu)?;
    let b = match op.has(Op::MEMORY) {
        true => u64::from(cpu.read::<u32>(bus, op)?),
        false => cpu.registers.x87.mmx(op.b),
    };
    let value = function(cpu.registers.x87.mmx(op.a), b);
    cpu.registers.x87.set_mmx(op.a, value);
    Ok(())
}

#[inline(always)]
fn shift_by(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, u64) -> u128,
) -> Result<(), Stop> {
    binary(cpu, bus, op, |a, b| function(a.into(), b) as u64)
}

#[inline(always)]
fn shift_by_immediate(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, u64) -> u128,
) -> Result<(), Stop> {
    check_mmx(cpu)?;
    let value = function(cpu.registers.x87.mmx(op.a).into(), op.immediate & 0xFF) as u64;
    cpu.registers.x87.set_mmx(op.a, value);
    Ok(())
}

fn pshufw(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    binary(cpu, bus, op, |_, b| mmx::pshufw(b, op.immediate as u8))
}

fn palignr(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    binary(cpu, bus, op, |a, b| mmx::palignr(a, b, op.immediate as u8))
}

/// MOVD and MOVQ into an MMX register.
fn load<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    check_mmx(cpu)?;
    let value = match op.has(Op::MEMORY) {
        true => cpu.read::<W>(bus, op)?,
        false => W::truncate(cpu.registers.gpr[op.b as usize]),
    };
    cpu.registers.x87.set_mmx(op.a, value.zero_extend());
    Ok(())
}

/// MOVD, MOVQ and MOVNTQ out of one.
fn store<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    check_mmx(cpu)?;
    let value = W::truncate(cpu.registers.x87.mmx(op.b));
    if !op.has(Op::MEMORY) {
        cpu.registers.x87.enter_mmx();
        value.to_register(&mut cpu.registers.gpr, op.a);
        return Ok(());
    }
    cpu.write(bus, op, value)?;
    cpu.registers.x87.enter_mmx();
    cpu.pending.after_store()
}

fn copy(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    binary(cpu, bus, op, |_, b| b)
}

fn pmovmskb(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    check_mmx(cpu)?;
    cpu.registers.x87.enter_mmx();
    integer::pmovmskb(cpu.registers.x87.mmx(op.b).into()).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

fn pextrw(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    check_mmx(cpu)?;
    cpu.registers.x87.enter_mmx();
    let word = (cpu.registers.x87.mmx(op.b) >> (16 * (op.immediate & 3))) as u16;
    u64::from(word).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

fn pinsrw(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    check_mmx(cpu)?;
    let word = match op.has(Op::MEMORY) {
        true => cpu.read::<u16>(bus, op)?,
        false => cpu.registers.gpr[op.b as usize] as u16,
    };
    let position = 16 * (op.immediate & 3);
    let kept = cpu.registers.x87.mmx(op.a) & !(0xFFFF << position);
    cpu.registers.x87.set_mmx(op.a, kept | u64::from(word) << position);
    Ok(())
}

fn maskmovq(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    check_mmx(cpu)?;
    let (value, mask) = (cpu.registers.x87.mmx(op.b), cpu.registers.x87.mmx(op.c));
    let stored = masked_store(cpu, bus, op, &value.to_le_bytes(), &mask.to_le_bytes());
    cpu.registers.x87.enter_mmx();
    stored
}

/// EMMS and FEMMS: all registers are empty.
fn emms(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    check_mmx(cpu)?;
    cpu.registers.x87.enter_mmx();
    cpu.registers.x87.valid = 0;
    Ok(())
}

fn lane_handler(i: &Instruction) -> Option<Handler> {
    macro_rules! by_name {
        ($($body:ident: $($name:ident => $function:path),*;)*) => {
            match i.mnemonic() {
                $($(Mnemonic::$name => Some(handler!($body, $function)),)*)*
                _ => None,
            }
        };
    }
    by_name! {
        lanes: Paddb => integer::paddb, Paddw => integer::paddw, Paddd => integer::paddd,
            Paddq => integer::paddq, Psubb => integer::psubb, Psubw => integer::psubw,
            Psubd => integer::psubd, Psubq => integer::psubq, Paddsb => integer::paddsb,
            Paddsw => integer::paddsw, Paddusb => integer::paddusb, Paddusw => integer::paddusw,
            Psubsb => integer::psubsb, Psubsw => integer::psubsw, Psubusb => integer::psubusb,
            Psubusw => integer::psubusw, Pavgb => integer::pavgb, Pavgw => integer::pavgw,
            Pminub => integer::pminub, Pminsw => integer::pminsw, Pmaxub => integer::pmaxub,
            Pmaxsw => integer::pmaxsw, Pcmpeqb => integer::pcmpeqb, Pcmpeqw => integer::pcmpeqw,
            Pcmpeqd => integer::pcmpeqd, Pcmpgtb => integer::pcmpgtb,
            Pcmpgtw => integer::pcmpgtw, Pcmpgtd => integer::pcmpgtd, Psignb => integer::psignb,
            Psignw => integer::psignw, Psignd => integer::psignd, Pabsb => integer::pabsb,
            Pabsw => integer::pabsw, Pabsd => integer::pabsd, Pand => integer::pand,
            Pandn => integer::pandn, Por => integer::por, Pxor => integer::pxor,
            Pmullw => multiply::pmullw, Pmulhw => multiply::pmulhw,
            Pmulhuw => multiply::pmulhuw, Pmuludq => multiply::pmuludq,
            Pmulhrsw => multiply::pmulhrsw, Pmaddwd => multiply::pmaddwd,
            Pmaddubsw => multiply::pmaddubsw;
        binary: Packsswb => mmx::packsswb, Packuswb => mmx::packuswb, Packssdw => mmx::packssdw,
            Punpckhbw => mmx::punpckhbw, Punpckhwd => mmx::punpckhwd,
            Punpckhdq => mmx::punpckhdq, Pshufb => mmx::pshufb, Phaddw => mmx::phaddw,
            Phaddd => mmx::phaddd, Phaddsw => mmx::phaddsw, Phsubw => mmx::phsubw,
            Phsubd => mmx::phsubd, Phsubsw => mmx::phsubsw, Psadbw => mmx::psadbw;
        low_half: Punpcklbw => mmx::punpcklbw, Punpcklwd => mmx::punpcklwd,
            Punpckldq => mmx::punpckldq;
    }
}

fn shifts(i: &Instruction) -> Option<Handler> {
    macro_rules! shift {
        ($name:ident) => {
            if is_memory(i, 1) || is_register(i, 1) {
                handler!(shift_by, shift::$name)
            } else {
                handler!(shift_by_immediate, shift::$name)
            }
        };
    }
    Some(match i.mnemonic() {
        Mnemonic::Psllw => shift!(psllw),
        Mnemonic::Pslld => shift!(pslld),
        Mnemonic::Psllq => shift!(psllq),
        Mnemonic::Psrlw => shift!(psrlw),
        Mnemonic::Psrld => shift!(psrld),
        Mnemonic::Psrlq => shift!(psrlq),
        Mnemonic::Psraw => shift!(psraw),
        Mnemonic::Psrad => shift!(psrad),
        _ => return None,
    })
}

fn moves(i: &Instruction) -> Option<Handler> {
    Some(match i.mnemonic() {
        Mnemonic::Movq if i.op_register(0).is_mm() && i.op_register(1).is_mm() => copy,
        Mnemonic::Movd | Mnemonic::Movq if i.op_register(0).is_mm() => sized!(width(i, 1), load),
        Mnemonic::Movd | Mnemonic::Movq | Mnemonic::Movntq => sized!(width(i, 0), store),
        Mnemonic::Pshufw => pshufw,
        Mnemonic::Palignr => palignr,
        Mnemonic::Pmovmskb => pmovmskb,
        Mnemonic::Pextrw => pextrw,
        Mnemonic::Pinsrw => pinsrw,
        Mnemonic::Maskmovq => maskmovq,
        _ => return None,
    })
}

pub(super) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    if i.code() == Code::Emms || i.code() == Code::Femms {
        return Binding::within(emms);
    }
    let uses_mmx = (0..i.op_count()).any(|operand| i.op_register(operand).is_mm());
    if !uses_mmx {
        return None;
    }
    let handler = lane_handler(i).or_else(|| shifts(i)).or_else(|| moves(i))?;
    Binding::costing(handler, Cost::Vector)
}

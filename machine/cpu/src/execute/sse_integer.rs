//! Integer SSE instructions on XMM registers.

use super::lanes::{
    of_sse, one_source, shifts, two_sources, widenings_of_2, widenings_of_4, widenings_of_8,
};
use super::sse::{binary, binary_immediate, handler, source};
use crate::execute::binding::{Binding, Handler};
use crate::operation::Op;
use crate::operation::decode::{CodeSize, Cost, is_memory, is_register};
use crate::vector::{extract, integer, multiply, shift, shuffle};
use crate::width::Width;
use crate::{Bus, Cpu, Stop};
use arch::control::rflags;
use arch::cpuid::Feature;
use iced_x86::{Code, Instruction, Mnemonic};

/// The count is the low quadword of the second operand.
#[inline(always)]
fn shift_by_register(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, u64) -> u128,
) -> Result<(), Stop> {
    binary(cpu, bus, op, |a, b| function(a, b as u64))
}

#[inline(always)]
fn shift_by_immediate(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, u64) -> u128,
) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let value = function(cpu.registers.xmm(op.a), op.immediate & 0xFF);
    cpu.registers.set_xmm(op.a, value);
    Ok(())
}

/// PMOVSX, PMOVZX: a source of 2, 4 or 8 bytes, not aligned.
#[inline(always)]
fn widen<W: Width>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, u128) -> u128,
) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let source = match op.has(Op::MEMORY) {
        true => u128::from(cpu.read::<W>(bus, op)?.zero_extend()),
        false => cpu.registers.xmm(op.b),
    };
    cpu.registers.set_xmm(op.a, function(0, source));
    Ok(())
}

#[inline(always)]
fn blend_variable(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, u128, u128) -> u128,
) -> Result<(), Stop> {
    let mask = cpu.registers.xmm(0);
    binary(cpu, bus, op, |a, b| function(a, b, mask))
}

fn ptest(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let b = source(cpu, bus, op)?;
    let (is_zero, is_carry) = integer::ptest(cpu.registers.xmm(op.a), b);
    let zero = if is_zero { rflags::ZF } else { 0 };
    let carry = if is_carry { rflags::CF } else { 0 };
    cpu.registers.flags.set_status(zero | carry);
    Ok(())
}

/// PMOVMSKB, MOVMSKPS, MOVMSKPD: to a 32-bit register.
#[inline(always)]
fn mask(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op, function: fn(u128) -> u32) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    function(cpu.registers.xmm(op.b)).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

/// PEXTRB, PEXTRW, PEXTRD, PEXTRQ, EXTRACTPS: a narrow lane clears the rest of the register.
#[inline(always)]
fn extract_lane<W: Width>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, u8) -> W,
) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let lane = function(cpu.registers.xmm(op.b), op.immediate as u8);
    if op.has(Op::MEMORY) {
        cpu.write(bus, op, lane)?;
        return cpu.pending.after_store();
    }
    lane.zero_extend().to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

/// PINSRB, PINSRW, PINSRD, PINSRQ.
#[inline(always)]
fn insert_lane<W: Width>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, W, u8) -> u128,
) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let lane = match op.has(Op::MEMORY) {
        true => cpu.read::<W>(bus, op)?,
        false => W::truncate(cpu.registers.gpr[op.b as usize]),
    };
    let value = function(cpu.registers.xmm(op.a), lane, op.immediate as u8);
    cpu.registers.set_xmm(op.a, value);
    Ok(())
}

/// INSERTPS: the immediate selects the lane of a register source; memory is one lane.
fn insertps(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let immediate = op.immediate as u8;
    let lane = match op.has(Op::MEMORY) {
        true => cpu.read::<u32>(bus, op)?,
        false => extract::pextrd(cpu.registers.xmm(op.b), immediate >> 6),
    };
    let value = shuffle::insertps(cpu.registers.xmm(op.a), lane, immediate);
    cpu.registers.set_xmm(op.a, value);
    Ok(())
}

/// EXTRQ: length and index from the immediates or from the second register.
fn extrq<const IMMEDIATE: bool>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.model.check_feature(Feature::Sse4a)?;
    cpu.control.check_sse()?;
    let control = cpu.registers.xmm(op.b);
    let (length, index) = match IMMEDIATE {
        true => (op.immediate as u8, op.c),
        false => (control as u8, (control >> 8) as u8),
    };
    let value = extract::extrq(cpu.registers.xmm(op.a), length, index);
    cpu.registers.set_xmm(op.a, value);
    Ok(())
}

fn insertq<const IMMEDIATE: bool>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.model.check_feature(Feature::Sse4a)?;
    cpu.control.check_sse()?;
    let source = cpu.registers.xmm(op.b);
    let (length, index) = match IMMEDIATE {
        true => (op.immediate as u8, op.c),
        false => ((source >> 64) as u8, (source >> 72) as u8),
    };
    let value = extract::insertq(cpu.registers.xmm(op.a), source, length, index);
    cpu.registers.set_xmm(op.a, value);
    Ok(())
}

fn shifts(i: &Instruction) -> Option<Handler> {
    match is_memory(i, 1) || is_register(i, 1) {
        true => shifts!(of_sse, i.mnemonic(), shift_by_register),
        false => shifts!(of_sse, i.mnemonic(), shift_by_immediate),
    }
}

/// Mnemonics and the functions of the same name.
macro_rules! by_name {
    ($mnemonic:expr, $body:ident; $($name:ident => $function:expr,)*) => {
        match $mnemonic {
            $(Mnemonic::$name => Some(handler!($body, $function)),)*
            _ => None,
        }
    };
}

fn lanes(i: &Instruction) -> Option<Handler> {
    two_sources!(of_sse, i.mnemonic(), binary)
        .or_else(|| one_source!(of_sse, i.mnemonic(), binary))
        .or_else(|| widenings_of_8!(of_sse, i.mnemonic(), widen::<u64>))
        .or_else(|| widenings_of_4!(of_sse, i.mnemonic(), widen::<u32>))
        .or_else(|| widenings_of_2!(of_sse, i.mnemonic(), widen::<u16>))
}

fn with_immediate(i: &Instruction) -> Option<Handler> {
    by_name!(i.mnemonic(), binary_immediate;
        Pshufd => |_, b, immediate| shuffle::pshufd(b, immediate),
        Pshuflw => |_, b, immediate| shuffle::pshuflw(b, immediate),
        Pshufhw => |_, b, immediate| shuffle::pshufhw(b, immediate),
        Shufps => shuffle::shufps, Shufpd => shuffle::shufpd, Palignr => shuffle::palignr,
        Pblendw => shuffle::pblendw, Blendps => shuffle::blendps, Blendpd => shuffle::blendpd,
        Mpsadbw => multiply::mpsadbw,
    )
}

fn movements(i: &Instruction) -> Option<Handler> {
    Some(match i.mnemonic() {
        Mnemonic::Ptest => ptest,
        Mnemonic::Pblendvb => handler!(blend_variable, shuffle::pblendvb),
        Mnemonic::Blendvps => handler!(blend_variable, shuffle::blendvps),
        Mnemonic::Blendvpd => handler!(blend_variable, shuffle::blendvpd),
        Mnemonic::Movddup => handler!(widen::<u64>, shuffle::movddup),
        Mnemonic::Pmovmskb => handler!(mask, integer::pmovmskb),
        Mnemonic::Movmskps => handler!(mask, integer::movmskps),
        Mnemonic::Movmskpd => handler!(mask, integer::movmskpd),
        Mnemonic::Pextrb => handler!(extract_lane, extract::pextrb),
        Mnemonic::Pextrw => handler!(extract_lane, extract::pextrw),
        Mnemonic::Pextrd | Mnemonic::Extractps => handler!(extract_lane, extract::pextrd),
        Mnemonic::Pextrq => handler!(extract_lane, extract::pextrq),
        Mnemonic::Pinsrb => handler!(insert_lane, extract::pinsrb),
        Mnemonic::Pinsrw => handler!(insert_lane, extract::pinsrw),
        Mnemonic::Pinsrd => handler!(insert_lane, extract::pinsrd),
        Mnemonic::Pinsrq => handler!(insert_lane, extract::pinsrq),
        Mnemonic::Insertps => insertps,
        Mnemonic::Extrq if i.code() == Code::Extrq_xmm_imm8_imm8 => extrq::<true>,
        Mnemonic::Extrq => extrq::<false>,
        Mnemonic::Insertq if i.code() == Code::Insertq_xmm_xmm_imm8_imm8 => insertq::<true>,
        Mnemonic::Insertq => insertq::<false>,
        _ => return None,
    })
}

pub(super) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    let uses_mmx = (0..i.op_count()).any(|operand| i.op_register(operand).is_mm());
    if uses_mmx {
        return None;
    }
    let handler =
        lanes(i).or_else(|| with_immediate(i)).or_else(|| shifts(i)).or_else(|| movements(i))?;
    Binding::costing(handler, Cost::Vector)
}

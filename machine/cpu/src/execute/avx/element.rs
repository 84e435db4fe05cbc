//! Single elements to and from registers, and comparisons of strings: 128 bits alone.

use super::operand::source_128;
use crate::execute::binding::{Binding, Handler};
use crate::execute::sse::handler;
use crate::operation::Op;
use crate::operation::decode::Cost;
use crate::vector::{extract, shuffle, string};
use crate::width::{RAX, RCX, RDX, Width};
use crate::{Bus, Cpu, Stop};
use iced_x86::{Code, Instruction, Mnemonic};

#[inline(always)]
fn extract_lane<W: Width>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, u8) -> W,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let lane = function(cpu.registers.xmm(op.b), op.immediate as u8);
    if op.has(Op::MEMORY) {
        cpu.write(bus, op, lane)?;
        return cpu.pending.after_store();
    }
    lane.zero_extend().to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

#[inline(always)]
fn insert_lane<W: Width>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, W, u8) -> u128,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let lane = match op.has(Op::MEMORY) {
        true => cpu.read::<W>(bus, op)?,
        false => W::truncate(cpu.registers.gpr[usize::from(op.c & 15)]),
    };
    let value = function(cpu.registers.xmm(op.b), lane, op.immediate as u8);
    cpu.registers.set_ymm(op.a, [value, 0]);
    Ok(())
}

fn vinsertps(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let immediate = op.immediate as u8;
    let lane = match op.has(Op::MEMORY) {
        true => cpu.read::<u32>(bus, op)?,
        false => extract::pextrd(cpu.registers.xmm(op.c), immediate >> 6),
    };
    let value = shuffle::insertps(cpu.registers.xmm(op.b), lane, immediate);
    cpu.registers.set_ymm(op.a, [value, 0]);
    Ok(())
}

/// VPCMPESTRI and VPCMPESTRM; `W` is the width of the lengths in rAX and rDX.
fn explicit<W: Width, const MASK: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let b = source_128(cpu, bus, op, op.b)?;
    let length = |register: usize| W::truncate(cpu.registers.gpr[register]).sign_extend() as i64;
    let lengths = (length(RAX), length(RDX));
    let found = string::explicit(cpu.registers.xmm(op.a), b, lengths, op.immediate as u8);
    conclude_string::<MASK>(cpu, op, &found);
    Ok(())
}

fn implicit<const MASK: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let b = source_128(cpu, bus, op, op.b)?;
    let found = string::implicit(cpu.registers.xmm(op.a), b, op.immediate as u8);
    conclude_string::<MASK>(cpu, op, &found);
    Ok(())
}

fn conclude_string<const MASK: bool>(cpu: &mut Cpu, op: &Op, found: &string::Comparison) {
    if MASK {
        cpu.registers.set_ymm(0, [found.mask(op.immediate as u8), 0]);
    } else {
        found.index(op.immediate as u8).to_register(&mut cpu.registers.gpr, RCX as u8);
    }
    cpu.registers.flags.set_status(found.status());
}

pub(super) fn bind(i: &Instruction) -> Option<Binding> {
    let handler: Handler = match i.mnemonic() {
        Mnemonic::Vpextrb => handler!(extract_lane, extract::pextrb),
        Mnemonic::Vpextrw => handler!(extract_lane, extract::pextrw),
        Mnemonic::Vpextrd | Mnemonic::Vextractps => handler!(extract_lane, extract::pextrd),
        Mnemonic::Vpextrq => handler!(extract_lane, extract::pextrq),
        Mnemonic::Vpinsrb => handler!(insert_lane, extract::pinsrb),
        Mnemonic::Vpinsrw => handler!(insert_lane, extract::pinsrw),
        Mnemonic::Vpinsrd => handler!(insert_lane, extract::pinsrd),
        Mnemonic::Vpinsrq => handler!(insert_lane, extract::pinsrq),
        Mnemonic::Vinsertps => vinsertps,
        Mnemonic::Vpcmpistri => implicit::<false>,
        Mnemonic::Vpcmpistrm => implicit::<true>,
        Mnemonic::Vpcmpestri64 => explicit::<u64, false>,
        Mnemonic::Vpcmpestrm64 => explicit::<u64, true>,
        Mnemonic::Vpcmpestri => match i.code() {
            Code::VEX_Vpcmpestri64_xmm_xmmm128_imm8 => explicit::<u64, false>,
            _ => explicit::<u32, false>,
        },
        Mnemonic::Vpcmpestrm => match i.code() {
            Code::VEX_Vpcmpestrm64_xmm_xmmm128_imm8 => explicit::<u64, true>,
            _ => explicit::<u32, true>,
        },
        _ => return None,
    };
    Binding::costing(handler, Cost::Vector)
}

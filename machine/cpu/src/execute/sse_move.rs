//! Moves of XMM registers: aligned and not, halves, scalars, non-temporal, and to and from general
//! and MMX registers.

use crate::execute::binding::{Binding, Handler, sized};
use crate::execute::x87::unit;
use crate::memory::Access;
use crate::operation::Op;
use crate::operation::decode::{CodeSize, Cost, is_memory, width};
use crate::width::{RDI, Width};
use crate::{Bus, Cpu, Stop};
use arch::cpuid::Feature;
use iced_x86::{Instruction, Mnemonic};

fn register_to_register(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let value = cpu.registers.xmm(op.b);
    cpu.registers.set_xmm(op.a, value);
    Ok(())
}

/// MOVAPS always insists on alignment: MXCSR.MM is for instructions that compute.
/// [APM1 "Misaligned Exception Mask"]
fn load<const ALIGNED: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    if ALIGNED {
        cpu.registers.check_aligned(op)?;
    }
    let value = cpu.read_128(bus, op)?;
    cpu.registers.set_xmm(op.a, value);
    Ok(())
}

fn store<const ALIGNED: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    if ALIGNED {
        cpu.registers.check_aligned(op)?;
    }
    let value = cpu.registers.xmm(op.b);
    cpu.write_128(bus, op, value)?;
    cpu.pending.after_store()
}

/// MOVSS, MOVSD, MOVD, MOVQ from memory: the rest of the register is cleared.
fn load_scalar<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let value = cpu.read::<W>(bus, op)?.zero_extend();
    cpu.registers.set_xmm(op.a, value.into());
    Ok(())
}

fn store_scalar<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let value = W::truncate(cpu.registers.xmm(op.b) as u64);
    cpu.write(bus, op, value)?;
    cpu.pending.after_store()
}

/// MOVNTSS and MOVNTSD of SSE4a.
fn store_scalar_sse4a<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.model.check_feature(Feature::Sse4a)?;
    store_scalar::<W>(cpu, bus, op)
}

/// MOVSS and MOVSD between registers keep the rest.
fn merge_scalar<W: Width>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let value = cpu.registers.xmm(op.b);
    cpu.registers.merge_xmm(op.a, value, W::BITS);
    Ok(())
}

/// MOVQ between registers clears the upper half.
fn movq_register(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let value = cpu.registers.xmm(op.b) as u64;
    cpu.registers.set_xmm(op.a, value.into());
    Ok(())
}

fn general_to_xmm<W: Width>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let value = W::truncate(cpu.registers.gpr[op.b as usize]).zero_extend();
    cpu.registers.set_xmm(op.a, value.into());
    Ok(())
}

fn xmm_to_general<W: Width>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    W::truncate(cpu.registers.xmm(op.b) as u64).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

/// MOVLPS, MOVLPD, MOVHPS, MOVHPD from memory.
fn load_half<const HIGH: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let value = cpu.read::<u64>(bus, op)?;
    set_half::<HIGH>(cpu, op.a, value);
    Ok(())
}

fn store_half<const HIGH: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let value = (cpu.registers.xmm(op.b) >> if HIGH { 64 } else { 0 }) as u64;
    cpu.write(bus, op, value)?;
    cpu.pending.after_store()
}

/// MOVLHPS (the source's low half to the high one) and MOVHLPS.
fn cross_half<const TO_HIGH: bool>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let value = (cpu.registers.xmm(op.b) >> if TO_HIGH { 0 } else { 64 }) as u64;
    set_half::<TO_HIGH>(cpu, op.a, value);
    Ok(())
}

fn set_half<const HIGH: bool>(cpu: &mut Cpu, register: u8, value: u64) {
    if HIGH {
        let low = cpu.registers.xmm(register) as u64;
        cpu.registers.set_xmm(register, u128::from(low) | u128::from(value) << 64);
    } else {
        cpu.registers.merge_xmm(register, value.into(), 64);
    }
}

/// MOVDQ2Q: to an MMX register, with all that MMX does to the x87 state.
fn movdq2q(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    unit::check_pending(cpu)?;
    let value = cpu.registers.xmm(op.b) as u64;
    cpu.registers.x87.set_mmx(op.a, value);
    Ok(())
}

fn movq2dq(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    unit::check_pending(cpu)?;
    cpu.registers.x87.enter_mmx();
    let value = cpu.registers.x87.mmx(op.b);
    cpu.registers.set_xmm(op.a, value.into());
    Ok(())
}

/// MASKMOVDQU: bytes of the first register whose byte in the second is negative, to DS:rDI. The
/// whole operand is checked as if it were written.
fn maskmovdqu(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let (value, mask) = (cpu.registers.xmm(op.b), cpu.registers.xmm(op.c));
    masked_store(cpu, bus, op, &value.to_le_bytes(), &mask.to_le_bytes())
}

pub(super) fn masked_store(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    value: &[u8],
    mask: &[u8],
) -> Result<(), Stop> {
    let offset = cpu.registers.gpr[RDI] & op.address_mask();
    let linear = cpu.operand_at(op, offset, value.len(), Access::Write)?;
    cpu.probe_area(bus, linear, value.len(), Access::Write, op.segment)?;
    for (index, (byte, mask)) in value.iter().zip(mask).enumerate() {
        if mask >> 7 != 0 {
            cpu.write_linear(bus, linear.wrapping_add(index as u64), *byte)?;
        }
    }
    cpu.pending.after_store()
}

/// MOVNTDQA has the alignment of MOVAPS.
fn vector_moves(i: &Instruction) -> Option<Handler> {
    macro_rules! moves {
        ($aligned:literal) => {
            if is_memory(i, 1) {
                load::<$aligned>
            } else if is_memory(i, 0) {
                store::<$aligned>
            } else {
                register_to_register
            }
        };
    }
    Some(match i.mnemonic() {
        Mnemonic::Movaps
        | Mnemonic::Movapd
        | Mnemonic::Movdqa
        | Mnemonic::Movntdqa
        | Mnemonic::Movntdq
        | Mnemonic::Movntps
        | Mnemonic::Movntpd => moves!(true),
        Mnemonic::Movups | Mnemonic::Movupd | Mnemonic::Movdqu | Mnemonic::Lddqu => moves!(false),
        _ => return None,
    })
}

fn scalar_moves(i: &Instruction) -> Option<Handler> {
    macro_rules! scalar {
        ($width:ty) => {
            if is_memory(i, 1) {
                load_scalar::<$width>
            } else if is_memory(i, 0) {
                store_scalar::<$width>
            } else {
                merge_scalar::<$width>
            }
        };
    }
    macro_rules! half {
        ($high:literal) => {
            if is_memory(i, 1) { load_half::<$high> } else { store_half::<$high> }
        };
    }
    let is_xmm = |operand| i.op_register(operand).is_xmm();
    Some(match i.mnemonic() {
        Mnemonic::Movss => scalar!(u32),
        Mnemonic::Movsd => scalar!(u64),
        Mnemonic::Movntss => store_scalar_sse4a::<u32>,
        Mnemonic::Movntsd => store_scalar_sse4a::<u64>,
        Mnemonic::Movlps | Mnemonic::Movlpd => half!(false),
        Mnemonic::Movhps | Mnemonic::Movhpd => half!(true),
        Mnemonic::Movlhps => cross_half::<true>,
        Mnemonic::Movhlps => cross_half::<false>,
        Mnemonic::Movd | Mnemonic::Movq => match (is_xmm(0), is_xmm(1)) {
            (true, true) => movq_register,
            (true, false) if is_memory(i, 1) => sized!(width(i, 1), load_scalar),
            (true, false) => sized!(width(i, 1), general_to_xmm),
            (false, true) if is_memory(i, 0) => sized!(width(i, 0), store_scalar),
            (false, true) => sized!(width(i, 0), xmm_to_general),
            (false, false) => return None,
        },
        Mnemonic::Movdq2q => movdq2q,
        Mnemonic::Movq2dq => movq2dq,
        Mnemonic::Maskmovdqu => maskmovdqu,
        _ => return None,
    })
}

pub(super) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    let handler = vector_moves(i).or_else(|| scalar_moves(i))?;
    let cost = match (is_memory(i, 0), is_memory(i, 1)) {
        (true, _) => Cost::Store,
        (_, true) => Cost::Load,
        _ => Cost::Vector,
    };
    Binding::costing(handler, cost)
}

//! Moves: whole vectors, aligned and not, scalars, halves of the low half, and the clearing of
//! high halves.

use super::operand::{Halves, halves, merged, source};
use crate::execute::binding::{Binding, Handler, sized};
use crate::execute::sse_move::masked_store;
use crate::operation::Op;
use crate::operation::decode::{Cost, is_memory, width};
use crate::state::Registers;
use crate::vector::shuffle;
use crate::width::Width;
use crate::{Bus, Cpu, Stop};
use iced_x86::{Instruction, Mnemonic};

impl Registers {
    /// #GP(0) for an operand that is not on a boundary of its own size. MXCSR.MM has no say.
    fn check_vector_aligned(&self, op: &Op) -> Result<(), Stop> {
        let mask = if op.has(Op::WIDE) { 31 } else { 15 };
        let base = self.bases()[(op.segment & 7) as usize];
        if base.wrapping_add(self.effective_address(op)) & mask != 0 {
            return Err(Stop::GENERAL_PROTECTION);
        }
        Ok(())
    }
}

fn load<const ALIGNED: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    if ALIGNED {
        cpu.registers.check_vector_aligned(op)?;
    }
    let value = source(cpu, bus, op, op.b)?;
    cpu.registers.set_ymm(op.a, value);
    Ok(())
}

fn store<const ALIGNED: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    if ALIGNED {
        cpu.registers.check_vector_aligned(op)?;
    }
    let value = cpu.registers.ymm(op.b);
    if op.has(Op::WIDE) {
        cpu.write_256(bus, op, value)?;
    } else {
        cpu.write_128(bus, op, value[0])?;
    }
    cpu.pending.after_store()
}

fn register_to_register(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let b = cpu.registers.ymm(op.b);
    cpu.registers.set_ymm(op.a, halves(op, |half| b[half]));
    Ok(())
}

/// VMOVSS, VMOVSD, VMOVD, VMOVQ from memory: the rest of the register is cleared.
fn load_scalar<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let value = cpu.read::<W>(bus, op)?.zero_extend();
    cpu.registers.set_ymm(op.a, [value.into(), 0]);
    Ok(())
}

fn store_scalar<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let value = W::truncate(cpu.registers.xmm(op.b) as u64);
    cpu.write(bus, op, value)?;
    cpu.pending.after_store()
}

/// VMOVSS and VMOVSD of registers: the low lane of the second source, the rest of the first.
fn merge_scalar<W: Width>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let value = merged(cpu.registers.xmm(op.b), cpu.registers.xmm(op.c), W::BITS);
    cpu.registers.set_ymm(op.a, [value, 0]);
    Ok(())
}

fn movq_register(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let value = cpu.registers.xmm(op.b) as u64;
    cpu.registers.set_ymm(op.a, [value.into(), 0]);
    Ok(())
}

fn general_to_vector<W: Width>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let value = W::truncate(cpu.registers.gpr[usize::from(op.b & 15)]).zero_extend();
    cpu.registers.set_ymm(op.a, [value.into(), 0]);
    Ok(())
}

fn vector_to_general<W: Width>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    W::truncate(cpu.registers.xmm(op.b) as u64).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

fn quarters(low: u64, high: u64) -> Halves {
    [u128::from(low) | u128::from(high) << 64, 0]
}

/// VMOVLPS, VMOVLPD, VMOVHPS, VMOVHPD from memory: the other quadword of the register source.
fn load_half<const HIGH: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let value = cpu.read::<u64>(bus, op)?;
    let b = cpu.registers.xmm(op.b);
    let result = if HIGH { quarters(b as u64, value) } else { quarters(value, (b >> 64) as u64) };
    cpu.registers.set_ymm(op.a, result);
    Ok(())
}

fn store_half<const HIGH: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let value = (cpu.registers.xmm(op.b) >> if HIGH { 64 } else { 0 }) as u64;
    cpu.write(bus, op, value)?;
    cpu.pending.after_store()
}

/// VMOVLHPS and VMOVHLPS.
fn cross_half<const TO_HIGH: bool>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let (b, c) = (cpu.registers.xmm(op.b), cpu.registers.xmm(op.c));
    let result = match TO_HIGH {
        true => quarters(b as u64, c as u64),
        false => quarters((c >> 64) as u64, (b >> 64) as u64),
    };
    cpu.registers.set_ymm(op.a, result);
    Ok(())
}

/// VMOVDDUP: of 128 bits, the memory operand is a quadword.
fn vmovddup(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let b = match op.has(Op::MEMORY) && !op.has(Op::WIDE) {
        true => [cpu.read::<u64>(bus, op)?.into(), 0],
        false => source(cpu, bus, op, op.b)?,
    };
    cpu.registers.set_ymm(op.a, halves(op, |half| shuffle::movddup(0, b[half])));
    Ok(())
}

fn vmaskmovdqu(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let (value, mask) = (cpu.registers.xmm(op.b), cpu.registers.xmm(op.c));
    masked_store(cpu, bus, op, &value.to_le_bytes(), &mask.to_le_bytes())
}

/// The registers that exist: eight outside 64-bit mode.
fn count(op: &Op) -> usize {
    if op.has(Op::LONG) { 16 } else { 8 }
}

fn vzeroupper(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    cpu.registers.ymm_high[..count(op)].fill(0);
    Ok(())
}

fn vzeroall(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    cpu.registers.ymm_high[..count(op)].fill(0);
    cpu.registers.xmm[..count(op)].fill(0);
    Ok(())
}

fn vldmxcsr(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let value = cpu.read::<u32>(bus, op)?;
    if value & !cpu.model.mxcsr_mask() != 0 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    cpu.registers.mxcsr = value;
    Ok(())
}

fn vstmxcsr(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let value = cpu.registers.mxcsr;
    cpu.write(bus, op, value)?;
    cpu.pending.after_store()
}

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
        Mnemonic::Vmovaps
        | Mnemonic::Vmovapd
        | Mnemonic::Vmovdqa
        | Mnemonic::Vmovntdqa
        | Mnemonic::Vmovntdq
        | Mnemonic::Vmovntps
        | Mnemonic::Vmovntpd => moves!(true),
        Mnemonic::Vmovups | Mnemonic::Vmovupd | Mnemonic::Vmovdqu | Mnemonic::Vlddqu => {
            moves!(false)
        }
        _ => return None,
    })
}

fn other_moves(i: &Instruction) -> Option<Handler> {
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
            if is_memory(i, 2) { load_half::<$high> } else { store_half::<$high> }
        };
    }
    let is_xmm = |operand| i.op_register(operand).is_xmm();
    Some(match i.mnemonic() {
        Mnemonic::Vmovss => scalar!(u32),
        Mnemonic::Vmovsd => scalar!(u64),
        Mnemonic::Vmovlps | Mnemonic::Vmovlpd => half!(false),
        Mnemonic::Vmovhps | Mnemonic::Vmovhpd => half!(true),
        Mnemonic::Vmovlhps => cross_half::<true>,
        Mnemonic::Vmovhlps => cross_half::<false>,
        Mnemonic::Vmovd | Mnemonic::Vmovq => match (is_xmm(0), is_xmm(1)) {
            (true, true) => movq_register,
            (true, false) if is_memory(i, 1) => sized!(width(i, 1), load_scalar),
            (true, false) => sized!(width(i, 1), general_to_vector),
            (false, true) if is_memory(i, 0) => sized!(width(i, 0), store_scalar),
            (false, true) => sized!(width(i, 0), vector_to_general),
            (false, false) => return None,
        },
        Mnemonic::Vmovddup => vmovddup,
        Mnemonic::Vmaskmovdqu => vmaskmovdqu,
        Mnemonic::Vzeroupper => vzeroupper,
        Mnemonic::Vzeroall => vzeroall,
        Mnemonic::Vldmxcsr => vldmxcsr,
        Mnemonic::Vstmxcsr => vstmxcsr,
        _ => return None,
    })
}

pub(super) fn bind(i: &Instruction) -> Option<Binding> {
    let handler = vector_moves(i).or_else(|| other_moves(i))?;
    let cost = match (is_memory(i, 0), is_memory(i, 1) || is_memory(i, 2)) {
        (true, _) => Cost::Store,
        (_, true) => Cost::Load,
        _ => Cost::Vector,
    };
    Binding::costing(handler, cost)
}

//! MUL, IMUL, MULX, DIV, IDIV.

use crate::execute::binding::{Binding, Handler, sized};
use crate::operation::Op;
use crate::operation::decode::{CodeSize, Cost, is_memory, width};
use crate::width::{HIGH_BYTE, RAX, RDX, Width};
use crate::{Bus, Cpu, Stop};
use arch::cpuid::Feature;
use iced_x86::{Instruction, Mnemonic};

/// The upper half of a double-width operand in the accumulator pair: AH or rDX.
const fn upper<W: Width>() -> u8 {
    if W::BITS == 8 { HIGH_BYTE } else { RDX as u8 }
}

fn source<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<W, Stop> {
    if op.has(Op::MEMORY) {
        cpu.read(bus, op)
    } else {
        Ok(W::from_register(&cpu.registers.gpr, op.a))
    }
}

fn mul<W: Width, const SIGNED: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    let b = source::<W>(cpu, bus, op)?;
    let a = W::from_register(&cpu.registers.gpr, RAX as u8);
    let product = if SIGNED {
        (a.sign_extend() as i64 as i128 * b.sign_extend() as i64 as i128) as u128
    } else {
        a.zero_extend() as u128 * b.zero_extend() as u128
    };
    let low = W::truncate(product as u64);
    let high = W::truncate((product >> W::BITS) as u64);
    let overflow = if SIGNED {
        product as i128 != low.sign_extend() as i64 as i128
    } else {
        high.zero_extend() != 0
    };
    low.to_register(&mut cpu.registers.gpr, RAX as u8);
    high.to_register(&mut cpu.registers.gpr, upper::<W>());
    cpu.registers.flags.shift(low, overflow, overflow);
    Ok(())
}

fn imul_value<W: Width>(cpu: &mut Cpu, a: W, b: W) -> W {
    let product = a.sign_extend() as i64 as i128 * b.sign_extend() as i64 as i128;
    let low = W::truncate(product as u64);
    let overflow = product != low.sign_extend() as i64 as i128;
    cpu.registers.flags.shift(low, overflow, overflow);
    low
}

/// Register times register.
fn imul_2r<W: Width>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let (a, b) =
        (W::from_register(&cpu.registers.gpr, op.a), W::from_register(&cpu.registers.gpr, op.b));
    imul_value(cpu, a, b).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

/// Register times memory.
fn imul_2m<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let b = cpu.read::<W>(bus, op)?;
    let a = W::from_register(&cpu.registers.gpr, op.a);
    imul_value(cpu, a, b).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

/// Register times immediate.
fn imul_3r<W: Width>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let a = W::from_register(&cpu.registers.gpr, op.b);
    imul_value(cpu, a, W::truncate(op.immediate)).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

/// Memory times immediate.
fn imul_3m<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let a = cpu.read::<W>(bus, op)?;
    imul_value(cpu, a, W::truncate(op.immediate)).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

/// rDX times operand into two registers, without flags. [APM3 "MULX"]
fn mulx<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_vex_general(Feature::Bmi2)?;
    let b = if op.has(Op::MEMORY) {
        cpu.read::<W>(bus, op)?
    } else {
        W::from_register(&cpu.registers.gpr, op.c)
    };
    let a = W::from_register(&cpu.registers.gpr, RDX as u8);
    let product = a.zero_extend() as u128 * b.zero_extend() as u128;
    W::truncate(product as u64).to_register(&mut cpu.registers.gpr, op.b);
    W::truncate((product >> W::BITS) as u64).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

fn div<W: Width, const SIGNED: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    let divisor = source::<W>(cpu, bus, op)?;
    let low = W::from_register(&cpu.registers.gpr, RAX as u8);
    let high = W::from_register(&cpu.registers.gpr, upper::<W>());
    let (quotient, remainder) = if SIGNED {
        let wide = (high.sign_extend() as i64 as i128) << W::BITS | low.zero_extend() as i128;
        let by = divisor.sign_extend() as i64 as i128;
        let quotient = wide.checked_div(by).ok_or(Stop::DIVIDE_ERROR)?;
        if W::truncate(quotient as u64).sign_extend() as i64 as i128 != quotient {
            return Err(Stop::DIVIDE_ERROR);
        }
        (quotient as u64, (wide % by) as u64)
    } else {
        let by = divisor.zero_extend();
        if high.zero_extend() >= by {
            return Err(Stop::DIVIDE_ERROR);
        }
        if W::BITS == 64 && high.zero_extend() != 0 {
            let wide = (high.zero_extend() as u128) << 64 | low.zero_extend() as u128;
            ((wide / by as u128) as u64, (wide % by as u128) as u64)
        } else {
            let wide = high.zero_extend().wrapping_shl(W::BITS) | low.zero_extend();
            let wide = if W::BITS == 64 { low.zero_extend() } else { wide };
            (wide / by, wide % by)
        }
    };
    W::truncate(quotient).to_register(&mut cpu.registers.gpr, RAX as u8);
    W::truncate(remainder).to_register(&mut cpu.registers.gpr, upper::<W>());
    Ok(())
}

fn mul_u<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    mul::<W, false>(cpu, bus, op)
}
fn mul_s<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    mul::<W, true>(cpu, bus, op)
}
fn div_u<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    div::<W, false>(cpu, bus, op)
}
fn div_s<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    div::<W, true>(cpu, bus, op)
}

pub(super) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    let w = width(i, 0);
    let (handler, cost): (Handler, Cost) = match i.mnemonic() {
        Mnemonic::Mul => (sized!(w, mul_u), Cost::Multiply),
        Mnemonic::Imul => (
            match i.op_count() {
                1 => sized!(w, mul_s),
                2 if is_memory(i, 1) => sized!(w, imul_2m),
                2 => sized!(w, imul_2r),
                _ if is_memory(i, 1) => sized!(w, imul_3m),
                _ => sized!(w, imul_3r),
            },
            Cost::Multiply,
        ),
        Mnemonic::Mulx => (sized!(w, mulx), Cost::Multiply),
        Mnemonic::Div => (sized!(w, div_u), Cost::Divide),
        Mnemonic::Idiv => (sized!(w, div_s), Cost::Divide),
        _ => return None,
    };
    Binding::costing(handler, cost)
}

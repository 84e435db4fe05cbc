//! SHL, SHR, SAR, ROL, ROR, RCL, RCR, SHLD, SHRD and the flagless RORX, SARX, SHLX, SHRX.

use crate::execute::arithmetic;
use crate::execute::binding::{Binding, Handler, sized};
use crate::flags::Flags;
use crate::operation::Op;
use crate::operation::decode::{CodeSize, is_memory, is_register, width};
use crate::width::{RCX, Width};
use crate::{Bus, Cpu, Stop};
use arch::cpuid::Feature;
use iced_x86::{Instruction, Mnemonic};

/// A shift or rotation by a count already masked to 5 or 6 bits and not zero.
trait Shift {
    fn apply<W: Width>(flags: &mut Flags, a: u64, count: u32) -> W;
}

struct Shl;
struct Shr;
struct Sar;
struct Rol;
struct Ror;
struct Rcl;
struct Rcr;

impl Shift for Shl {
    #[inline(always)]
    fn apply<W: Width>(flags: &mut Flags, a: u64, count: u32) -> W {
        let result = W::truncate(a.checked_shl(count).unwrap_or(0));
        let carry = count <= W::BITS && a >> (W::BITS - count) & 1 != 0;
        let sign = result.zero_extend() & W::SIGN != 0;
        flags.shift(result, carry, sign != carry);
        result
    }
}

impl Shift for Shr {
    #[inline(always)]
    fn apply<W: Width>(flags: &mut Flags, a: u64, count: u32) -> W {
        let result = W::truncate(a.checked_shr(count).unwrap_or(0));
        let carry = count <= W::BITS && a >> (count - 1) & 1 != 0;
        flags.shift(result, carry, a & W::SIGN != 0);
        result
    }
}

impl Shift for Sar {
    #[inline(always)]
    fn apply<W: Width>(flags: &mut Flags, a: u64, count: u32) -> W {
        let wide = W::truncate(a).sign_extend() as i64;
        let result = W::truncate((wide >> count.min(63)) as u64);
        let carry = wide >> (count - 1).min(63) & 1 != 0;
        flags.shift(result, carry, false);
        result
    }
}

impl Shift for Rol {
    #[inline(always)]
    fn apply<W: Width>(flags: &mut Flags, a: u64, count: u32) -> W {
        let count = count % W::BITS;
        let rotated = if count == 0 { a } else { a << count | a >> (W::BITS - count) };
        let result = W::truncate(rotated);
        let carry = result.zero_extend() & 1 != 0;
        flags.set_carry_overflow(carry, carry != (result.zero_extend() & W::SIGN != 0));
        result
    }
}

impl Shift for Ror {
    #[inline(always)]
    fn apply<W: Width>(flags: &mut Flags, a: u64, count: u32) -> W {
        let count = count % W::BITS;
        let rotated = if count == 0 { a } else { a >> count | a << (W::BITS - count) };
        let result = W::truncate(rotated);
        let carry = result.zero_extend() & W::SIGN != 0;
        let next = result.zero_extend() & W::SIGN >> 1 != 0;
        flags.set_carry_overflow(carry, carry != next);
        result
    }
}

impl Shift for Rcl {
    fn apply<W: Width>(flags: &mut Flags, a: u64, count: u32) -> W {
        let count = count % (W::BITS + 1);
        let wide = a as u128 | (flags.carry() as u128) << W::BITS;
        let rotated = if count == 0 { wide } else { wide << count | wide >> (W::BITS + 1 - count) };
        let result = W::truncate(rotated as u64);
        let carry = rotated >> W::BITS & 1 != 0;
        flags.set_carry_overflow(carry, carry != (result.zero_extend() & W::SIGN != 0));
        result
    }
}

impl Shift for Rcr {
    fn apply<W: Width>(flags: &mut Flags, a: u64, count: u32) -> W {
        let count = count % (W::BITS + 1);
        let wide = a as u128 | (flags.carry() as u128) << W::BITS;
        let rotated = if count == 0 { wide } else { wide >> count | wide << (W::BITS + 1 - count) };
        let result = W::truncate(rotated as u64);
        let carry = rotated >> W::BITS & 1 != 0;
        let signs = result.zero_extend() & W::SIGN != 0;
        let next = result.zero_extend() & W::SIGN >> 1 != 0;
        flags.set_carry_overflow(carry, signs != next);
        result
    }
}

#[inline(always)]
fn mask_count<W: Width>(count: u64) -> u32 {
    count as u32 & if W::BITS == 64 { 63 } else { 31 }
}

#[inline(always)]
fn on_register<W: Width, O: Shift>(cpu: &mut Cpu, op: &Op, count: u64) -> Result<(), Stop> {
    let count = mask_count::<W>(count);
    let a = W::from_register(&cpu.registers.gpr, op.a);
    // A 32-bit destination loses its upper half even when the count is zero.
    let result =
        if count == 0 { a } else { O::apply(&mut cpu.registers.flags, a.zero_extend(), count) };
    result.to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

fn register_by_immediate<W: Width, O: Shift>(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    on_register::<W, O>(cpu, op, op.immediate)
}

fn register_by_cl<W: Width, O: Shift>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    on_register::<W, O>(cpu, op, cpu.registers.gpr[RCX])
}

fn on_memory<W: Width, O: Shift>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    count: u64,
) -> Result<(), Stop> {
    let count = mask_count::<W>(count);
    let place = cpu.locate::<W>(bus, op)?;
    let a = arithmetic::load::<W>(cpu, bus, place);
    if count == 0 {
        return Ok(());
    }
    let result = O::apply::<W>(&mut cpu.registers.flags, a.zero_extend(), count);
    arithmetic::store(cpu, bus, place, result)
}

fn memory_by_immediate<W: Width, O: Shift>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    on_memory::<W, O>(cpu, bus, op, op.immediate)
}

fn memory_by_cl<W: Width, O: Shift>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    on_memory::<W, O>(cpu, bus, op, cpu.registers.gpr[RCX])
}

fn shift<O: Shift>(i: &Instruction) -> Handler {
    let w = width(i, 0);
    match (is_memory(i, 0), is_register(i, 1)) {
        (false, false) => sized!(w, register_by_immediate, O),
        (false, true) => sized!(w, register_by_cl, O),
        (true, false) => sized!(w, memory_by_immediate, O),
        (true, true) => sized!(w, memory_by_cl, O),
    }
}

/// SHLD and SHRD. A count beyond the width of a 16-bit operand is undefined; AMD's processors then
/// shift the source in again.
#[inline(always)]
fn double_value<W: Width, const LEFT: bool>(flags: &mut Flags, a: W, b: W, count: u32) -> W {
    let bits = W::BITS;
    let (a, b) = (a.zero_extend() as u128, b.zero_extend() as u128);
    let (result, carry) = if LEFT {
        // [a | b | b] for 16 and 32 bits, [a | b] for 64: the result is the top part.
        let parts = if bits == 64 { 2 } else { 3 };
        let wide = if bits == 64 { a << 64 | b } else { a << (2 * bits) | b << bits | b };
        let carry = wide >> (parts * bits - count) & 1 != 0;
        (wide << count >> ((parts - 1) * bits), carry)
    } else {
        let wide = if bits == 64 { b << 64 | a } else { b << (2 * bits) | b << bits | a };
        (wide >> count, wide >> (count - 1) & 1 != 0)
    };
    let result = W::truncate(result as u64);
    let changed = (result.zero_extend() ^ a as u64) & W::SIGN != 0;
    flags.shift(result, carry, changed);
    result
}

fn double<W: Width, const LEFT: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    count: u64,
) -> Result<(), Stop> {
    let count = mask_count::<W>(count);
    let b = W::from_register(&cpu.registers.gpr, op.b);
    if op.has(Op::MEMORY) {
        let place = cpu.locate::<W>(bus, op)?;
        let a = arithmetic::load::<W>(cpu, bus, place);
        if count == 0 {
            return Ok(());
        }
        let result = double_value::<W, LEFT>(&mut cpu.registers.flags, a, b, count);
        return arithmetic::store(cpu, bus, place, result);
    }
    let a = W::from_register(&cpu.registers.gpr, op.a);
    let result =
        if count == 0 { a } else { double_value::<W, LEFT>(&mut cpu.registers.flags, a, b, count) };
    result.to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

fn shld_i<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    double::<W, true>(cpu, bus, op, op.immediate)
}

fn shld_cl<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    double::<W, true>(cpu, bus, op, cpu.registers.gpr[RCX])
}

fn shrd_i<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    double::<W, false>(cpu, bus, op, op.immediate)
}

fn shrd_cl<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    double::<W, false>(cpu, bus, op, cpu.registers.gpr[RCX])
}

/// BMI2 shifts: no flags, count in a register. The first source may be memory.
fn flagless<W: Width, const KIND: u8>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    cpu.check_vex_general(Feature::Bmi2)?;
    let source = if op.has(Op::MEMORY) {
        cpu.read::<W>(bus, op)?
    } else {
        W::from_register(&cpu.registers.gpr, op.b)
    };
    let count = if KIND == 3 { op.immediate } else { cpu.registers.gpr[op.c as usize] };
    let count = count as u32 & (W::BITS - 1);
    let a = source.zero_extend();
    let result = match KIND {
        0 => a << count,
        1 => a >> count,
        2 => (source.sign_extend() as i64 >> count) as u64,
        _ if count == 0 => a,
        _ => a >> count | a << (W::BITS - count),
    };
    W::truncate(result).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

fn shlx<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    flagless::<W, 0>(cpu, bus, op)
}
fn shrx<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    flagless::<W, 1>(cpu, bus, op)
}
fn sarx<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    flagless::<W, 2>(cpu, bus, op)
}
fn rorx<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    flagless::<W, 3>(cpu, bus, op)
}

pub(super) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    let w = width(i, 0);
    let handler = match i.mnemonic() {
        Mnemonic::Shl | Mnemonic::Sal => shift::<Shl>(i),
        Mnemonic::Shr => shift::<Shr>(i),
        Mnemonic::Sar => shift::<Sar>(i),
        Mnemonic::Rol => shift::<Rol>(i),
        Mnemonic::Ror => shift::<Ror>(i),
        Mnemonic::Rcl => shift::<Rcl>(i),
        Mnemonic::Rcr => shift::<Rcr>(i),
        Mnemonic::Shld if is_register(i, 2) => sized!(w, shld_cl),
        Mnemonic::Shld => sized!(w, shld_i),
        Mnemonic::Shrd if is_register(i, 2) => sized!(w, shrd_cl),
        Mnemonic::Shrd => sized!(w, shrd_i),
        Mnemonic::Shlx => sized!(w, shlx),
        Mnemonic::Shrx => sized!(w, shrx),
        Mnemonic::Sarx => sized!(w, sarx),
        Mnemonic::Rorx => sized!(w, rorx),
        _ => return None,
    };
    Binding::within(handler)
}

//! Conversions between formats and integers; those of other widths than their source take twice or
//! half of it.

use super::float::{packed_one, scalar_32, scalar_64};
use super::operand::{halves, merged, source, source_128};
use crate::execute::binding::{Binding, Handler};
use crate::execute::sse::{self, handler};
use crate::float::{Context, Rounding, convert, half};
use crate::memory::Access;
use crate::operation::Op;
use crate::operation::decode::{Cost, width};
use crate::vector::packed_float as lanes;
use crate::width::Width;
use crate::{Bus, Cpu, Stop};
use iced_x86::{Instruction, Mnemonic};

fn rounding<const TRUNCATES: bool>(context: &Context) -> Rounding {
    if TRUNCATES { Rounding::Zero } else { context.rounding }
}

/// Sources of half the destination's width: eight bytes for each half.
#[inline(always)]
fn widening(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, &mut Context) -> u128,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let b = match op.has(Op::WIDE) {
        true => source_128(cpu, bus, op, op.b)?,
        false => scalar_64(cpu, bus, op, op.b)?.into(),
    };
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let value = halves(op, |half| function(b >> (64 * half), &mut context));
    sse::conclude(cpu, &context)?;
    cpu.registers.set_ymm(op.a, value);
    Ok(())
}

/// Destinations of half the source's width: eight bytes of each half.
#[inline(always)]
fn narrowing(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, &mut Context) -> u128,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let b = source(cpu, bus, op, op.b)?;
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let [low, high] = halves(op, |half| function(b[half], &mut context));
    sse::conclude(cpu, &context)?;
    cpu.registers.set_ymm(op.a, [low | high << 64, 0]);
    Ok(())
}

fn to_dwords<const TRUNCATES: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    packed_one(cpu, bus, op, |b, c| lanes::cvtps2dq(b, rounding::<TRUNCATES>(c), c))
}

fn doubles_to_dwords<const TRUNCATES: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    narrowing(cpu, bus, op, |b, c| lanes::cvtpd2dq(b, rounding::<TRUNCATES>(c), c))
}

/// VCVTSD2SS and VCVTSS2SD: the rest of the low half is the first source's.
fn vcvtsd2ss(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let c = scalar_64(cpu, bus, op, op.c)?;
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let value: u32 = convert::between(c, &mut context);
    sse::conclude(cpu, &context)?;
    cpu.registers.set_ymm(op.a, [merged(cpu.registers.xmm(op.b), value.into(), 32), 0]);
    Ok(())
}

fn vcvtss2sd(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let c = scalar_32(cpu, bus, op, op.c)?;
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let value: u64 = convert::between(c, &mut context);
    sse::conclude(cpu, &context)?;
    cpu.registers.set_ymm(op.a, [merged(cpu.registers.xmm(op.b), value.into(), 64), 0]);
    Ok(())
}

/// VCVTSI2SS and VCVTSI2SD from an integer of `W`.
fn from_general<W: Width, const DOUBLE: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let source = match op.has(Op::MEMORY) {
        true => cpu.read::<W>(bus, op)?,
        false => W::from_register(&cpu.registers.gpr, op.c),
    };
    let integer = source.sign_extend() as i64;
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let (value, bits) = match DOUBLE {
        true => (convert::from_integer::<u64>(integer, &mut context), 64),
        false => (convert::from_integer::<u32>(integer, &mut context).into(), 32),
    };
    sse::conclude(cpu, &context)?;
    cpu.registers.set_ymm(op.a, [merged(cpu.registers.xmm(op.b), value.into(), bits), 0]);
    Ok(())
}

/// VCVTSS2SI, VCVTTSS2SI, VCVTSD2SI, VCVTTSD2SI to an integer of `W`.
fn to_general<W: Width, const DOUBLE: bool, const TRUNCATES: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let rounding = rounding::<TRUNCATES>(&context);
    let integer = match DOUBLE {
        true => {
            let source = scalar_64(cpu, bus, op, op.b)?;
            convert::to_integer(source, W::BITS, rounding, &mut context)
        }
        false => {
            let source = scalar_32(cpu, bus, op, op.b)?;
            convert::to_integer(source, W::BITS, rounding, &mut context)
        }
    };
    sse::conclude(cpu, &context)?;
    W::truncate(integer as u64).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

/// VCVTPS2PH: to a register, whose rest is cleared, or to memory.
fn vcvtps2ph(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let b = cpu.registers.ymm(op.b);
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let immediate = op.immediate as u8;
    let [low, high] = halves(op, |at| half::from_singles(b[at], immediate, &mut context).into());
    if op.has(Op::MEMORY) {
        // Memory that cannot be written goes before a numeric exception.
        let linear = cpu.operand(op, if op.has(Op::WIDE) { 16 } else { 8 }, Access::Write)?;
        cpu.probe_area(
            bus,
            linear,
            if op.has(Op::WIDE) { 16 } else { 8 },
            Access::Write,
            op.segment,
        )?;
        sse::conclude(cpu, &context)?;
        match op.has(Op::WIDE) {
            true => cpu.write_128(bus, op, low | high << 64)?,
            false => cpu.write(bus, op, low as u64)?,
        }
        return cpu.pending.after_store();
    }
    sse::conclude(cpu, &context)?;
    cpu.registers.set_ymm(op.a, [low | high << 64, 0]);
    Ok(())
}

fn packed(i: &Instruction) -> Option<Handler> {
    Some(match i.mnemonic() {
        Mnemonic::Vcvtps2pd => handler!(widening, lanes::cvtps2pd),
        Mnemonic::Vcvtdq2pd => handler!(widening, lanes::cvtdq2pd),
        Mnemonic::Vcvtph2ps => handler!(widening, |b, c| half::to_singles(b as u64, c)),
        Mnemonic::Vcvtpd2ps => handler!(narrowing, lanes::cvtpd2ps),
        Mnemonic::Vcvtdq2ps => handler!(packed_one, lanes::cvtdq2ps),
        Mnemonic::Vcvtps2dq => to_dwords::<false>,
        Mnemonic::Vcvttps2dq => to_dwords::<true>,
        Mnemonic::Vcvtpd2dq => doubles_to_dwords::<false>,
        Mnemonic::Vcvttpd2dq => doubles_to_dwords::<true>,
        Mnemonic::Vcvtps2ph => vcvtps2ph,
        _ => return None,
    })
}

pub(super) fn bind(i: &Instruction) -> Option<Binding> {
    macro_rules! general {
        ($handler:ident, $operand:literal $(, $constant:literal)*) => {
            if width(i, $operand) == 8 {
                $handler::<u64 $(, $constant)*>
            } else {
                $handler::<u32 $(, $constant)*>
            }
        };
    }
    let handler: Handler = match i.mnemonic() {
        Mnemonic::Vcvtsi2ss => general!(from_general, 2, false),
        Mnemonic::Vcvtsi2sd => general!(from_general, 2, true),
        Mnemonic::Vcvtss2si => general!(to_general, 0, false, false),
        Mnemonic::Vcvttss2si => general!(to_general, 0, false, true),
        Mnemonic::Vcvtsd2si => general!(to_general, 0, true, false),
        Mnemonic::Vcvttsd2si => general!(to_general, 0, true, true),
        Mnemonic::Vcvtsd2ss => vcvtsd2ss,
        Mnemonic::Vcvtss2sd => vcvtss2sd,
        _ => packed(i)?,
    };
    Binding::costing(handler, Cost::Vector)
}

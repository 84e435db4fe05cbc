//! Integers: what SSE does in each half of the vectors, shifts by counts of lanes, and AES.

use super::operand::{halves, source, source_128};
use crate::execute::binding::{Binding, Handler};
use crate::execute::lanes::{
    of_avx, one_source, shifts, two_sources, widenings_of_2, widenings_of_4, widenings_of_8,
};
use crate::execute::sse::handler;
use crate::operation::Op;
use crate::operation::decode::{Cost, is_memory, is_register};
use crate::vector::{aes, carryless, integer, multiply, shift, shuffle, variable};
use crate::width::Width;
use crate::{Bus, Cpu, Stop};
use arch::control::rflags;
use iced_x86::{Instruction, Mnemonic};

/// `destination = function(first source, second source)` in each half.
#[inline(always)]
pub(super) fn binary(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, u128) -> u128,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let c = source(cpu, bus, op, op.c)?;
    let b = cpu.registers.ymm(op.b);
    cpu.registers.set_ymm(op.a, halves(op, |half| function(b[half], c[half])));
    Ok(())
}

/// One source, which the functions of SSE take as the second.
#[inline(always)]
pub(super) fn unary(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, u128) -> u128,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let b = source(cpu, bus, op, op.b)?;
    cpu.registers.set_ymm(op.a, halves(op, |half| function(0, b[half])));
    Ok(())
}

/// The part of the immediate that a half looks at: the high one's is `BITS` further up.
#[inline(always)]
fn immediate<const BITS: u32>(op: &Op, half: usize) -> u8 {
    (op.immediate as u8) >> (BITS * half as u32)
}

#[inline(always)]
fn binary_immediate<const BITS: u32>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, u128, u8) -> u128,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let c = source(cpu, bus, op, op.c)?;
    let b = cpu.registers.ymm(op.b);
    let value = halves(op, |half| function(b[half], c[half], immediate::<BITS>(op, half)));
    cpu.registers.set_ymm(op.a, value);
    Ok(())
}

#[inline(always)]
fn unary_immediate<const BITS: u32>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, u8) -> u128,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let b = source(cpu, bus, op, op.b)?;
    let value = halves(op, |half| function(b[half], immediate::<BITS>(op, half)));
    cpu.registers.set_ymm(op.a, value);
    Ok(())
}

/// The count is the low quadword of 128 bits, for both halves.
#[inline(always)]
fn shift_by_vector(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, u64) -> u128,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let count = source_128(cpu, bus, op, op.c)? as u64;
    let b = cpu.registers.ymm(op.b);
    cpu.registers.set_ymm(op.a, halves(op, |half| function(b[half], count)));
    Ok(())
}

#[inline(always)]
fn shift_by_immediate(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, u64) -> u128,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let b = cpu.registers.ymm(op.b);
    let value = halves(op, |half| function(b[half], op.immediate & 0xFF));
    cpu.registers.set_ymm(op.a, value);
    Ok(())
}

/// VPMOVSX and VPMOVZX: each half of the result from `BYTES` of the source.
#[inline(always)]
fn widen<const BYTES: u32>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, u128) -> u128,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let source = match (op.has(Op::MEMORY), BYTES << u32::from(op.has(Op::WIDE))) {
        (false, _) => cpu.registers.xmm(op.b),
        (true, 2) => cpu.read::<u16>(bus, op)?.into(),
        (true, 4) => cpu.read::<u32>(bus, op)?.into(),
        (true, 8) => cpu.read::<u64>(bus, op)?.into(),
        (true, _) => cpu.read_128(bus, op)?,
    };
    let value = halves(op, |half| function(0, source >> (8 * BYTES * half as u32)));
    cpu.registers.set_ymm(op.a, value);
    Ok(())
}

/// The mask is a register, which the immediate names.
#[inline(always)]
fn blend_variable(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, u128, u128) -> u128,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let mask = cpu.registers.ymm(op.immediate as u8);
    let c = source(cpu, bus, op, op.c)?;
    let b = cpu.registers.ymm(op.b);
    let value = halves(op, |half| function(b[half], c[half], mask[half]));
    cpu.registers.set_ymm(op.a, value);
    Ok(())
}

/// VPTEST, VTESTPS, VTESTPD: ZF if no bit of `mask` is in both, CF if none is in the second alone.
#[inline(always)]
fn test(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op, mask: u128) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let b = source(cpu, bus, op, op.b)?;
    let a = cpu.registers.ymm(op.a);
    let [both_low, both_high] = halves(op, |half| a[half] & b[half] & mask);
    let [alone_low, alone_high] = halves(op, |half| !a[half] & b[half] & mask);
    let zero = if both_low | both_high == 0 { rflags::ZF } else { 0 };
    let carry = if alone_low | alone_high == 0 { rflags::CF } else { 0 };
    cpu.registers.flags.set_status(zero | carry);
    Ok(())
}

/// VPMOVMSKB, VMOVMSKPS, VMOVMSKPD: a half gives `BITS`.
#[inline(always)]
fn mask<const BITS: u32>(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    op: &Op,
    function: fn(u128) -> u32,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let b = cpu.registers.ymm(op.b);
    let [low, high] = halves(op, |half| function(b[half]).into());
    let mask = low as u32 | (high as u32) << BITS;
    mask.to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

fn shifts(i: &Instruction) -> Option<Handler> {
    match is_memory(i, 2) || is_register(i, 2) {
        true => shifts!(of_avx, i.mnemonic(), shift_by_vector),
        false => shifts!(of_avx, i.mnemonic(), shift_by_immediate),
    }
}

/// Mnemonics and the functions that do it in each half.
macro_rules! by_name {
    ($mnemonic:expr, $body:path; $($name:ident => $function:expr,)*) => {
        match $mnemonic {
            $(Mnemonic::$name => Some(handler!($body, $function)),)*
            _ => None,
        }
    };
}

fn lanes(i: &Instruction) -> Option<Handler> {
    two_sources!(of_avx, i.mnemonic(), binary).or_else(|| {
        by_name!(i.mnemonic(), binary;
            Vpsllvd => variable::psllvd, Vpsllvq => variable::psllvq, Vpsrlvd => variable::psrlvd,
            Vpsrlvq => variable::psrlvq, Vpsravd => variable::psravd,
            Vaesenc => aes::aesenc, Vaesenclast => aes::aesenclast,
            Vaesdec => aes::aesdec, Vaesdeclast => aes::aesdeclast,
        )
    })
}

fn of_one(i: &Instruction) -> Option<Handler> {
    one_source!(of_avx, i.mnemonic(), unary)
        .or_else(|| by_name!(i.mnemonic(), unary; Vaesimc => aes::aesimc,))
        .or_else(|| {
            by_name!(i.mnemonic(), unary_immediate::<0>;
                Vpshufd => shuffle::pshufd, Vpshuflw => shuffle::pshuflw,
                Vpshufhw => shuffle::pshufhw, Vaeskeygenassist => aes::aeskeygenassist,
            )
        })
}

fn with_immediate(i: &Instruction) -> Option<Handler> {
    by_name!(i.mnemonic(), binary_immediate::<0>;
        Vshufps => shuffle::shufps, Vpalignr => shuffle::palignr, Vpblendw => shuffle::pblendw,
        Vpclmulqdq => carryless::pclmulqdq,
    )
    .or_else(|| {
        by_name!(i.mnemonic(), binary_immediate::<2>;
            Vshufpd => shuffle::shufpd, Vblendpd => shuffle::blendpd,
        )
    })
    .or_else(|| by_name!(i.mnemonic(), binary_immediate::<3>; Vmpsadbw => multiply::mpsadbw,))
    .or_else(|| {
        by_name!(i.mnemonic(), binary_immediate::<4>;
            Vblendps => shuffle::blendps, Vpblendd => shuffle::blendps,
        )
    })
}

fn widenings(i: &Instruction) -> Option<Handler> {
    widenings_of_8!(of_avx, i.mnemonic(), widen::<8>)
        .or_else(|| widenings_of_4!(of_avx, i.mnemonic(), widen::<4>))
        .or_else(|| widenings_of_2!(of_avx, i.mnemonic(), widen::<2>))
}

/// The sign bits of dwords and of quadwords.
const DWORD_SIGNS: u128 = 0x8000_0000_8000_0000_8000_0000_8000_0000;
const QWORD_SIGNS: u128 = 0x8000_0000_0000_0000_8000_0000_0000_0000;

fn others(i: &Instruction) -> Option<Handler> {
    Some(match i.mnemonic() {
        Mnemonic::Vptest => handler!(test, u128::MAX),
        Mnemonic::Vtestps => handler!(test, DWORD_SIGNS),
        Mnemonic::Vtestpd => handler!(test, QWORD_SIGNS),
        Mnemonic::Vpblendvb => handler!(blend_variable, shuffle::pblendvb),
        Mnemonic::Vblendvps => handler!(blend_variable, shuffle::blendvps),
        Mnemonic::Vblendvpd => handler!(blend_variable, shuffle::blendvpd),
        Mnemonic::Vpmovmskb => handler!(mask::<16>, integer::pmovmskb),
        Mnemonic::Vmovmskps => handler!(mask::<4>, integer::movmskps),
        Mnemonic::Vmovmskpd => handler!(mask::<2>, integer::movmskpd),
        _ => return None,
    })
}

pub(super) fn bind(i: &Instruction) -> Option<Binding> {
    let handler = lanes(i)
        .or_else(|| of_one(i))
        .or_else(|| with_immediate(i))
        .or_else(|| shifts(i))
        .or_else(|| widenings(i))
        .or_else(|| others(i))?;
    Binding::costing(handler, Cost::Vector)
}

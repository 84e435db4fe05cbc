//! SSE floating point: scalar and packed arithmetic, comparisons and conversions.

use super::sse::{handler, source, source_32, source_64};
use crate::execute::binding::{Binding, Handler};
use crate::execute::sse;
use crate::execute::x87::unit;
use crate::float::{Context, Rounding, compare, convert, reciprocal, scalar};
use crate::operation::Op;
use crate::operation::decode::{CodeSize, Cost, is_memory, width};
use crate::vector::packed_float::{self as packed, Binary, doubles, singles};
use crate::vector::{dwords, from_dwords};
use crate::width::Width;
use crate::{Bus, Cpu, Stop};
use arch::control::rflags;
use iced_x86::{Instruction, Mnemonic};
use std::cmp::Ordering;

/// Packed: all lanes of the destination and of an aligned source.
#[inline(always)]
fn packed(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, u128, &mut Context) -> u128,
) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let b = source(cpu, bus, op)?;
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let value = function(cpu.registers.xmm(op.a), b, &mut context);
    sse::conclude(cpu, &context)?;
    cpu.registers.set_xmm(op.a, value);
    Ok(())
}

#[inline(always)]
fn packed_single(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u32, u32, &mut Context) -> u32,
) -> Result<(), Stop> {
    packed(cpu, bus, op, |a, b, context| singles(a, b, context, &function))
}

#[inline(always)]
fn packed_double(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u64, u64, &mut Context) -> u64,
) -> Result<(), Stop> {
    packed(cpu, bus, op, |a, b, context| doubles(a, b, context, &function))
}

/// Scalar: the low lane; the rest of the destination stays.
#[inline(always)]
fn single(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u32, u32, &mut Context) -> u32,
) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let b = source_32(cpu, bus, op)?;
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let value = function(cpu.registers.xmm(op.a) as u32, b, &mut context);
    sse::conclude(cpu, &context)?;
    cpu.registers.merge_xmm(op.a, value.into(), 32);
    Ok(())
}

#[inline(always)]
fn double(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u64, u64, &mut Context) -> u64,
) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let b = source_64(cpu, bus, op)?;
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let value = function(cpu.registers.xmm(op.a) as u64, b, &mut context);
    sse::conclude(cpu, &context)?;
    cpu.registers.merge_xmm(op.a, value.into(), 64);
    Ok(())
}

fn all_ones_if_single(holds: bool) -> u32 {
    if holds { u32::MAX } else { 0 }
}

fn all_ones_if_double(holds: bool) -> u64 {
    if holds { u64::MAX } else { 0 }
}

/// The bits of the immediate that select one of eight predicates; the others belong to AVX.
const PREDICATE: u8 = 7;

fn cmpps(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    packed_single(cpu, bus, op, |a, b, context| {
        all_ones_if_single(compare::predicate(a, b, op.immediate as u8 & PREDICATE, context))
    })
}

fn cmppd(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    packed_double(cpu, bus, op, |a, b, context| {
        all_ones_if_double(compare::predicate(a, b, op.immediate as u8 & PREDICATE, context))
    })
}

fn cmpss(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    single(cpu, bus, op, |a, b, context| {
        all_ones_if_single(compare::predicate(a, b, op.immediate as u8 & PREDICATE, context))
    })
}

fn cmpsd(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    double(cpu, bus, op, |a, b, context| {
        all_ones_if_double(compare::predicate(a, b, op.immediate as u8 & PREDICATE, context))
    })
}

/// ZF, PF and CF of a comparison; the other status flags are cleared.
pub(super) fn comparison_flags(ordering: Option<Ordering>) -> u64 {
    match ordering {
        None => rflags::ZF | rflags::PF | rflags::CF,
        Some(Ordering::Greater) => 0,
        Some(Ordering::Less) => rflags::CF,
        Some(Ordering::Equal) => rflags::ZF,
    }
}

#[inline(always)]
fn compare_single(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u32, u32, &mut Context) -> Option<Ordering>,
) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let b = source_32(cpu, bus, op)?;
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let ordering = function(cpu.registers.xmm(op.a) as u32, b, &mut context);
    sse::conclude(cpu, &context)?;
    cpu.registers.flags.set_status(comparison_flags(ordering));
    Ok(())
}

#[inline(always)]
fn compare_double(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u64, u64, &mut Context) -> Option<Ordering>,
) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let b = source_64(cpu, bus, op)?;
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let ordering = function(cpu.registers.xmm(op.a) as u64, b, &mut context);
    sse::conclude(cpu, &context)?;
    cpu.registers.flags.set_status(comparison_flags(ordering));
    Ok(())
}

/// RCPPS and RSQRTPS raise nothing.
#[inline(always)]
fn approximate(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: fn(u32) -> u32,
) -> Result<(), Stop> {
    super::sse::binary(cpu, bus, op, |_, b| from_dwords(dwords(b).map(function)))
}

#[inline(always)]
fn approximate_scalar(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: fn(u32) -> u32,
) -> Result<(), Stop> {
    single(cpu, bus, op, |_, b, _| function(b))
}

/// Conversions whose source is 8 bytes: CVTPS2PD and CVTDQ2PD.
#[inline(always)]
fn widening(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, &mut Context) -> u128,
) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let b = source_64(cpu, bus, op)?;
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let value = function(b.into(), &mut context);
    sse::conclude(cpu, &context)?;
    cpu.registers.set_xmm(op.a, value);
    Ok(())
}

fn cvtsd2ss(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let b = source_64(cpu, bus, op)?;
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let value: u32 = convert::between(b, &mut context);
    sse::conclude(cpu, &context)?;
    cpu.registers.merge_xmm(op.a, value.into(), 32);
    Ok(())
}

fn cvtss2sd(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let b = source_32(cpu, bus, op)?;
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let value: u64 = convert::between(b, &mut context);
    sse::conclude(cpu, &context)?;
    cpu.registers.merge_xmm(op.a, value.into(), 64);
    Ok(())
}

/// CVTSI2SS and CVTSI2SD from an integer of `W`.
fn from_general<W: Width, const DOUBLE: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let source = match op.has(Op::MEMORY) {
        true => cpu.read::<W>(bus, op)?,
        false => W::from_register(&cpu.registers.gpr, op.b),
    };
    let integer = source.sign_extend() as i64;
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let (value, bits) = match DOUBLE {
        true => (convert::from_integer::<u64>(integer, &mut context), 64),
        false => (convert::from_integer::<u32>(integer, &mut context).into(), 32),
    };
    sse::conclude(cpu, &context)?;
    cpu.registers.merge_xmm(op.a, value.into(), bits);
    Ok(())
}

/// CVTSS2SI, CVTTSS2SI, CVTSD2SI, CVTTSD2SI to an integer of `W`.
fn to_general<W: Width, const DOUBLE: bool, const TRUNCATES: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let rounding = if TRUNCATES { Rounding::Zero } else { context.rounding };
    let integer = match DOUBLE {
        true => convert::to_integer(source_64(cpu, bus, op)?, W::BITS, rounding, &mut context),
        false => convert::to_integer(source_32(cpu, bus, op)?, W::BITS, rounding, &mut context),
    };
    sse::conclude(cpu, &context)?;
    W::truncate(integer as u64).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

fn cvtps2dq<const TRUNCATES: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    packed(cpu, bus, op, |_, b, context| {
        let rounding = if TRUNCATES { Rounding::Zero } else { context.rounding };
        packed::cvtps2dq(b, rounding, context)
    })
}

fn cvtpd2dq<const TRUNCATES: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    packed(cpu, bus, op, |_, b, context| {
        let rounding = if TRUNCATES { Rounding::Zero } else { context.rounding };
        packed::cvtpd2dq(b, rounding, context)
    })
}

/// The MMX operand of CVTPI2PS and CVTPI2PD. A register makes the x87 state MMX's, memory does not.
/// [APM3 "CVTPI2PD"]
fn integer_pair(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<u64, Stop> {
    if op.has(Op::MEMORY) {
        return cpu.read::<u64>(bus, op);
    }
    unit::check_pending(cpu)?;
    cpu.registers.x87.enter_mmx();
    Ok(cpu.registers.x87.mmx(op.b))
}

fn cvtpi2ps(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let b = integer_pair(cpu, bus, op)?;
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let value = packed::cvtpi2ps(b, &mut context);
    sse::conclude(cpu, &context)?;
    cpu.registers.merge_xmm(op.a, value.into(), 64);
    Ok(())
}

fn cvtpi2pd(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let b = integer_pair(cpu, bus, op)?;
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let value = packed::cvtdq2pd(b.into(), &mut context);
    sse::conclude(cpu, &context)?;
    cpu.registers.set_xmm(op.a, value);
    Ok(())
}

/// CVTPS2PI, CVTTPS2PI, CVTPD2PI, CVTTPD2PI.
fn to_mmx<const DOUBLE: bool, const TRUNCATES: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    unit::check_pending(cpu)?;
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let rounding = if TRUNCATES { Rounding::Zero } else { context.rounding };
    let value = match DOUBLE {
        true => packed::cvtpd2dq(source(cpu, bus, op)?, rounding, &mut context) as u64,
        false => packed::cvtps2pi(source_64(cpu, bus, op)?, rounding, &mut context),
    };
    cpu.registers.x87.enter_mmx();
    sse::conclude(cpu, &context)?;
    cpu.registers.x87.set_mmx(op.a, value);
    Ok(())
}

fn rounding(i: &Instruction) -> Option<Handler> {
    Some(match i.mnemonic() {
        Mnemonic::Roundps => |cpu, bus, op| {
            packed_single(cpu, bus, op, |_, b, context| {
                scalar::round_to_integral(b, op.immediate as u8, context)
            })
        },
        Mnemonic::Roundpd => |cpu, bus, op| {
            packed_double(cpu, bus, op, |_, b, context| {
                scalar::round_to_integral(b, op.immediate as u8, context)
            })
        },
        Mnemonic::Roundss => |cpu, bus, op| {
            single(cpu, bus, op, |_, b, context| {
                scalar::round_to_integral(b, op.immediate as u8, context)
            })
        },
        Mnemonic::Roundsd => |cpu, bus, op| {
            double(cpu, bus, op, |_, b, context| {
                scalar::round_to_integral(b, op.immediate as u8, context)
            })
        },
        Mnemonic::Dpps => |cpu, bus, op| {
            let sums = cpu.model.differences().dot_products;
            packed(cpu, bus, op, |a, b, context| {
                packed::dpps(a, b, op.immediate as u8, sums, context)
            })
        },
        Mnemonic::Dppd => |cpu, bus, op| {
            let sums = cpu.model.differences().dot_products;
            packed(cpu, bus, op, |a, b, context| {
                packed::dppd(a, b, op.immediate as u8, sums, context)
            })
        },
        _ => return None,
    })
}

fn arithmetic(i: &Instruction) -> Option<Handler> {
    /// One function in its four forms.
    macro_rules! forms {
        ($($ps:ident $pd:ident $ss:ident $sd:ident: $function:path;)*) => {
            match i.mnemonic() {
                $(
                    Mnemonic::$ps => Some(handler!(packed_single, $function)),
                    Mnemonic::$pd => Some(handler!(packed_double, $function)),
                    Mnemonic::$ss => Some(handler!(single, $function)),
                    Mnemonic::$sd => Some(handler!(double, $function)),
                )*
                Mnemonic::Sqrtps => {
                    Some(handler!(packed_single, |_, b, c| scalar::square_root(b, c)))
                }
                Mnemonic::Sqrtpd => {
                    Some(handler!(packed_double, |_, b, c| scalar::square_root(b, c)))
                }
                Mnemonic::Sqrtss => Some(handler!(single, |_, b, c| scalar::square_root(b, c))),
                Mnemonic::Sqrtsd => Some(handler!(double, |_, b, c| scalar::square_root(b, c))),
                _ => None,
            }
        };
    }
    forms! {
        Addps Addpd Addss Addsd: scalar::add;
        Subps Subpd Subss Subsd: scalar::subtract;
        Mulps Mulpd Mulss Mulsd: scalar::multiply;
        Divps Divpd Divss Divsd: scalar::divide;
        Minps Minpd Minss Minsd: compare::minimum;
        Maxps Maxpd Maxss Maxsd: compare::maximum;
    }
}

/// Sums and differences of neighbours.
fn horizontal(i: &Instruction) -> Option<Handler> {
    const ADD_SINGLE: Binary<u32> = scalar::add;
    const ADD_DOUBLE: Binary<u64> = scalar::add;
    const SUBTRACT_SINGLE: Binary<u32> = scalar::subtract;
    const SUBTRACT_DOUBLE: Binary<u64> = scalar::subtract;
    Some(match i.mnemonic() {
        Mnemonic::Haddps => {
            handler!(packed, |a, b, c| packed::horizontal_singles(a, b, c, ADD_SINGLE))
        }
        Mnemonic::Haddpd => {
            handler!(packed, |a, b, c| packed::horizontal_doubles(a, b, c, ADD_DOUBLE))
        }
        Mnemonic::Hsubps => {
            handler!(packed, |a, b, c| packed::horizontal_singles(a, b, c, SUBTRACT_SINGLE))
        }
        Mnemonic::Hsubpd => {
            handler!(packed, |a, b, c| packed::horizontal_doubles(a, b, c, SUBTRACT_DOUBLE))
        }
        Mnemonic::Addsubps => handler!(packed, packed::addsubps),
        Mnemonic::Addsubpd => handler!(packed, packed::addsubpd),
        _ => return None,
    })
}

fn comparisons(i: &Instruction) -> Option<Handler> {
    Some(match i.mnemonic() {
        Mnemonic::Cmpps => cmpps,
        Mnemonic::Cmppd => cmppd,
        Mnemonic::Cmpss => cmpss,
        Mnemonic::Cmpsd => cmpsd,
        Mnemonic::Comiss => handler!(compare_single, compare::ordered),
        Mnemonic::Comisd => handler!(compare_double, compare::ordered),
        Mnemonic::Ucomiss => handler!(compare_single, compare::unordered),
        Mnemonic::Ucomisd => handler!(compare_double, compare::unordered),
        Mnemonic::Rcpps => handler!(approximate, reciprocal::reciprocal),
        Mnemonic::Rcpss => handler!(approximate_scalar, reciprocal::reciprocal),
        Mnemonic::Rsqrtps => handler!(approximate, reciprocal::reciprocal_square_root),
        Mnemonic::Rsqrtss => handler!(approximate_scalar, reciprocal::reciprocal_square_root),
        _ => return None,
    })
}

fn conversions(i: &Instruction) -> Option<Handler> {
    macro_rules! general {
        ($handler:ident, $operand:literal $(, $constant:literal)*) => {
            if width(i, $operand) == 8 {
                $handler::<u64 $(, $constant)*>
            } else {
                $handler::<u32 $(, $constant)*>
            }
        };
    }
    Some(match i.mnemonic() {
        Mnemonic::Cvtsi2ss => general!(from_general, 1, false),
        Mnemonic::Cvtsi2sd => general!(from_general, 1, true),
        Mnemonic::Cvtss2si => general!(to_general, 0, false, false),
        Mnemonic::Cvttss2si => general!(to_general, 0, false, true),
        Mnemonic::Cvtsd2si => general!(to_general, 0, true, false),
        Mnemonic::Cvttsd2si => general!(to_general, 0, true, true),
        Mnemonic::Cvtsd2ss => cvtsd2ss,
        Mnemonic::Cvtss2sd => cvtss2sd,
        Mnemonic::Cvtps2pd => handler!(widening, packed::cvtps2pd),
        Mnemonic::Cvtdq2pd => handler!(widening, packed::cvtdq2pd),
        Mnemonic::Cvtpd2ps => handler!(packed, |_, b, c| packed::cvtpd2ps(b, c)),
        Mnemonic::Cvtdq2ps => handler!(packed, |_, b, c| packed::cvtdq2ps(b, c)),
        Mnemonic::Cvtps2dq => cvtps2dq::<false>,
        Mnemonic::Cvttps2dq => cvtps2dq::<true>,
        Mnemonic::Cvtpd2dq => cvtpd2dq::<false>,
        Mnemonic::Cvttpd2dq => cvtpd2dq::<true>,
        Mnemonic::Cvtpi2ps => cvtpi2ps,
        Mnemonic::Cvtpi2pd => cvtpi2pd,
        Mnemonic::Cvtps2pi => to_mmx::<false, false>,
        Mnemonic::Cvttps2pi => to_mmx::<false, true>,
        Mnemonic::Cvtpd2pi => to_mmx::<true, false>,
        Mnemonic::Cvttpd2pi => to_mmx::<true, true>,
        _ => return None,
    })
}

pub(super) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    // CMPSD and MOVSD are also string instructions.
    if !i.op_register(0).is_xmm() && !i.op_register(1).is_xmm() && !is_mmx_conversion(i) {
        return None;
    }
    let is_slow = matches!(
        i.mnemonic(),
        Mnemonic::Divps
            | Mnemonic::Divpd
            | Mnemonic::Divss
            | Mnemonic::Divsd
            | Mnemonic::Sqrtps
            | Mnemonic::Sqrtpd
            | Mnemonic::Sqrtss
            | Mnemonic::Sqrtsd
            | Mnemonic::Dpps
            | Mnemonic::Dppd
    );
    let handler = arithmetic(i)
        .or_else(|| comparisons(i))
        .or_else(|| conversions(i))
        .or_else(|| rounding(i))
        .or_else(|| horizontal(i))?;
    Binding::costing(handler, if is_slow { Cost::FloatSlow } else { Cost::Vector })
}

/// Conversions to general or MMX registers from memory name no XMM register.
fn is_mmx_conversion(i: &Instruction) -> bool {
    is_memory(i, 1) && !is_memory(i, 0)
}

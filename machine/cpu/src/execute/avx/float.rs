//! Floating point: what SSE does, with a destination apart from the sources.

use super::operand::{halves, merged, source};
use crate::execute::binding::{Binding, Handler};
use crate::execute::sse::{self, handler};
use crate::float::{Context, compare, reciprocal, scalar};
use crate::operation::Op;
use crate::operation::decode::Cost;
use crate::vector::packed_float::{self as lanes, Binary, doubles, singles};
use crate::vector::{dwords, from_dwords};
use crate::{Bus, Cpu, Stop};
use iced_x86::{Instruction, Mnemonic};

/// All lanes of two sources.
#[inline(always)]
pub(super) fn packed(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, u128, &mut Context) -> u128,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let c = source(cpu, bus, op, op.c)?;
    let b = cpu.registers.ymm(op.b);
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let value = halves(op, |half| function(b[half], c[half], &mut context));
    sse::conclude(cpu, &context)?;
    cpu.registers.set_ymm(op.a, value);
    Ok(())
}

#[inline(always)]
pub(super) fn packed_single(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u32, u32, &mut Context) -> u32,
) -> Result<(), Stop> {
    packed(cpu, bus, op, |a, b, context| singles(a, b, context, &function))
}

#[inline(always)]
pub(super) fn packed_double(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u64, u64, &mut Context) -> u64,
) -> Result<(), Stop> {
    packed(cpu, bus, op, |a, b, context| doubles(a, b, context, &function))
}

/// All lanes of one source.
#[inline(always)]
pub(super) fn packed_one(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, &mut Context) -> u128,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let b = source(cpu, bus, op, op.b)?;
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let value = halves(op, |half| function(b[half], &mut context));
    sse::conclude(cpu, &context)?;
    cpu.registers.set_ymm(op.a, value);
    Ok(())
}

#[inline(always)]
pub(super) fn scalar_32(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    register: u8,
) -> Result<u32, Stop> {
    if op.has(Op::MEMORY) { cpu.read(bus, op) } else { Ok(cpu.registers.xmm(register) as u32) }
}

#[inline(always)]
pub(super) fn scalar_64(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    register: u8,
) -> Result<u64, Stop> {
    if op.has(Op::MEMORY) { cpu.read(bus, op) } else { Ok(cpu.registers.xmm(register) as u64) }
}

/// The low lane; the rest of the low half is the first source's.
#[inline(always)]
pub(super) fn single(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u32, u32, &mut Context) -> u32,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let c = scalar_32(cpu, bus, op, op.c)?;
    let b = cpu.registers.xmm(op.b);
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let value = function(b as u32, c, &mut context);
    sse::conclude(cpu, &context)?;
    cpu.registers.set_ymm(op.a, [merged(b, value.into(), 32), 0]);
    Ok(())
}

#[inline(always)]
pub(super) fn double(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u64, u64, &mut Context) -> u64,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let c = scalar_64(cpu, bus, op, op.c)?;
    let b = cpu.registers.xmm(op.b);
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let value = function(b as u64, c, &mut context);
    sse::conclude(cpu, &context)?;
    cpu.registers.set_ymm(op.a, [merged(b, value.into(), 64), 0]);
    Ok(())
}

fn arithmetic(i: &Instruction) -> Option<Handler> {
    macro_rules! forms {
        ($($ps:ident $pd:ident $ss:ident $sd:ident: $function:path;)*) => {
            match i.mnemonic() {
                $(
                    Mnemonic::$ps => Some(handler!(packed_single, $function)),
                    Mnemonic::$pd => Some(handler!(packed_double, $function)),
                    Mnemonic::$ss => Some(handler!(single, $function)),
                    Mnemonic::$sd => Some(handler!(double, $function)),
                )*
                _ => None,
            }
        };
    }
    forms! {
        Vaddps Vaddpd Vaddss Vaddsd: scalar::add;
        Vsubps Vsubpd Vsubss Vsubsd: scalar::subtract;
        Vmulps Vmulpd Vmulss Vmulsd: scalar::multiply;
        Vdivps Vdivpd Vdivss Vdivsd: scalar::divide;
        Vminps Vminpd Vminss Vminsd: compare::minimum;
        Vmaxps Vmaxpd Vmaxss Vmaxsd: compare::maximum;
    }
}

fn roots(i: &Instruction) -> Option<Handler> {
    Some(match i.mnemonic() {
        Mnemonic::Vsqrtps => {
            handler!(packed_one, |b, c| singles(b, b, c, |_, x, c| { scalar::square_root(x, c) }))
        }
        Mnemonic::Vsqrtpd => {
            handler!(packed_one, |b, c| doubles(b, b, c, |_, x, c| { scalar::square_root(x, c) }))
        }
        Mnemonic::Vsqrtss => handler!(single, |_, b, c| scalar::square_root(b, c)),
        Mnemonic::Vsqrtsd => handler!(double, |_, b, c| scalar::square_root(b, c)),
        Mnemonic::Vrcpps => {
            handler!(packed_one, |b, _| from_dwords(dwords(b).map(reciprocal::reciprocal)))
        }
        Mnemonic::Vrsqrtps => handler!(packed_one, |b, _| from_dwords(
            dwords(b).map(reciprocal::reciprocal_square_root)
        )),
        Mnemonic::Vrcpss => handler!(single, |_, b, _| reciprocal::reciprocal(b)),
        Mnemonic::Vrsqrtss => handler!(single, |_, b, _| reciprocal::reciprocal_square_root(b)),
        _ => return None,
    })
}

fn rounding(i: &Instruction) -> Option<Handler> {
    Some(match i.mnemonic() {
        Mnemonic::Vroundps => |cpu, bus, op| {
            packed_one(cpu, bus, op, |b, context| {
                let round = |_, lane, context: &mut Context| {
                    scalar::round_to_integral(lane, op.immediate as u8, context)
                };
                singles(b, b, context, round)
            })
        },
        Mnemonic::Vroundpd => |cpu, bus, op| {
            packed_one(cpu, bus, op, |b, context| {
                let round = |_, lane, context: &mut Context| {
                    scalar::round_to_integral(lane, op.immediate as u8, context)
                };
                doubles(b, b, context, round)
            })
        },
        Mnemonic::Vroundss => |cpu, bus, op| {
            single(cpu, bus, op, |_, b, context| {
                scalar::round_to_integral(b, op.immediate as u8, context)
            })
        },
        Mnemonic::Vroundsd => |cpu, bus, op| {
            double(cpu, bus, op, |_, b, context| {
                scalar::round_to_integral(b, op.immediate as u8, context)
            })
        },
        _ => return None,
    })
}

/// Sums and differences of neighbours, and dot products.
fn horizontal(i: &Instruction) -> Option<Handler> {
    const ADD_SINGLE: Binary<u32> = scalar::add;
    const ADD_DOUBLE: Binary<u64> = scalar::add;
    const SUBTRACT_SINGLE: Binary<u32> = scalar::subtract;
    const SUBTRACT_DOUBLE: Binary<u64> = scalar::subtract;
    Some(match i.mnemonic() {
        Mnemonic::Vhaddps => {
            handler!(packed, |a, b, c| lanes::horizontal_singles(a, b, c, ADD_SINGLE))
        }
        Mnemonic::Vhaddpd => {
            handler!(packed, |a, b, c| lanes::horizontal_doubles(a, b, c, ADD_DOUBLE))
        }
        Mnemonic::Vhsubps => {
            handler!(packed, |a, b, c| lanes::horizontal_singles(a, b, c, SUBTRACT_SINGLE))
        }
        Mnemonic::Vhsubpd => {
            handler!(packed, |a, b, c| lanes::horizontal_doubles(a, b, c, SUBTRACT_DOUBLE))
        }
        Mnemonic::Vaddsubps => handler!(packed, lanes::addsubps),
        Mnemonic::Vaddsubpd => handler!(packed, lanes::addsubpd),
        Mnemonic::Vdpps => |cpu, bus, op| {
            let sums = cpu.model.differences().dot_products;
            packed(cpu, bus, op, |a, b, context| {
                lanes::dpps(a, b, op.immediate as u8, sums, context)
            })
        },
        Mnemonic::Vdppd => |cpu, bus, op| {
            let sums = cpu.model.differences().dot_products;
            packed(cpu, bus, op, |a, b, context| {
                lanes::dppd(a, b, op.immediate as u8, sums, context)
            })
        },
        _ => return None,
    })
}

pub(super) fn bind(i: &Instruction) -> Option<Binding> {
    let is_slow = matches!(
        i.mnemonic(),
        Mnemonic::Vdivps
            | Mnemonic::Vdivpd
            | Mnemonic::Vdivss
            | Mnemonic::Vdivsd
            | Mnemonic::Vsqrtps
            | Mnemonic::Vsqrtpd
            | Mnemonic::Vsqrtss
            | Mnemonic::Vsqrtsd
            | Mnemonic::Vdpps
            | Mnemonic::Vdppd
    );
    let handler =
        arithmetic(i).or_else(|| roots(i)).or_else(|| rounding(i)).or_else(|| horizontal(i))?;
    Binding::costing(handler, if is_slow { Cost::FloatSlow } else { Cost::Vector })
}

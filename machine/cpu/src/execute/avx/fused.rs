//! FMA: a product and a sum, rounded once. [SDM1 "Fused-Multiply-ADD (FMA) Numeric Behavior"]

use super::float::{scalar_32, scalar_64};
use super::operand::{halves, merged, source};
use crate::execute::binding::{Binding, Handler};
use crate::execute::sse;
use crate::float::Context;
use crate::float::fused::{Signs, fused};
use crate::operation::Op;
use crate::operation::decode::Cost;
use crate::vector::{dwords, from_dwords, from_qwords, qwords};
use crate::{Bus, Cpu, Stop};
use iced_x86::{Instruction, Mnemonic};
use std::array::from_fn;

/// Which of the three operands are multiplied, and which is added: the digits of the mnemonic.
const ORDER_132: u8 = 0;
const ORDER_213: u8 = 1;
const ORDER_231: u8 = 2;

/// What is done with the signs, by lane where the mnemonic says ADDSUB or SUBADD.
const MADD: u8 = 0;
const MSUB: u8 = 1;
const NMADD: u8 = 2;
const NMSUB: u8 = 3;
const MADDSUB: u8 = 4;
const MSUBADD: u8 = 5;

fn signs<const KIND: u8>(lane: usize) -> Signs {
    let is_odd = lane % 2 == 1;
    let (product, addend) = match KIND {
        MADD => (false, false),
        MSUB => (false, true),
        NMADD => (true, false),
        NMSUB => (true, true),
        MADDSUB => (false, !is_odd),
        _ => (false, is_odd),
    };
    Signs { negates_product: product, negates_addend: addend }
}

/// The operands as factors and addend.
fn ordered<T, const ORDER: u8>(a: T, b: T, c: T) -> (T, T, T) {
    match ORDER {
        ORDER_132 => (a, c, b),
        ORDER_213 => (b, a, c),
        _ => (b, c, a),
    }
}

fn packed_single<const ORDER: u8, const KIND: u8>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    packed(cpu, bus, op, |a, b, c, context| {
        let (x, y, z) = ordered::<_, ORDER>(dwords(a), dwords(b), dwords(c));
        from_dwords(from_fn(|lane| fused(x[lane], y[lane], z[lane], signs::<KIND>(lane), context)))
    })
}

fn packed_double<const ORDER: u8, const KIND: u8>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    packed(cpu, bus, op, |a, b, c, context| {
        let (x, y, z) = ordered::<_, ORDER>(qwords(a), qwords(b), qwords(c));
        from_qwords(from_fn(|lane| fused(x[lane], y[lane], z[lane], signs::<KIND>(lane), context)))
    })
}

#[inline(always)]
fn packed(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, u128, u128, &mut Context) -> u128,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let c = source(cpu, bus, op, op.c)?;
    let (a, b) = (cpu.registers.ymm(op.a), cpu.registers.ymm(op.b));
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let value = halves(op, |half| function(a[half], b[half], c[half], &mut context));
    sse::conclude(cpu, &context)?;
    cpu.registers.set_ymm(op.a, value);
    Ok(())
}

fn single<const ORDER: u8, const KIND: u8>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let c = scalar_32(cpu, bus, op, op.c)?;
    let (a, b) = (cpu.registers.xmm(op.a), cpu.registers.xmm(op.b) as u32);
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let (x, y, z) = ordered::<_, ORDER>(a as u32, b, c);
    let value = fused(x, y, z, signs::<KIND>(0), &mut context);
    sse::conclude(cpu, &context)?;
    cpu.registers.set_ymm(op.a, [merged(a, value.into(), 32), 0]);
    Ok(())
}

fn double<const ORDER: u8, const KIND: u8>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let c = scalar_64(cpu, bus, op, op.c)?;
    let (a, b) = (cpu.registers.xmm(op.a), cpu.registers.xmm(op.b) as u64);
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let (x, y, z) = ordered::<_, ORDER>(a as u64, b, c);
    let value = fused(x, y, z, signs::<KIND>(0), &mut context);
    sse::conclude(cpu, &context)?;
    cpu.registers.set_ymm(op.a, [merged(a, value.into(), 64), 0]);
    Ok(())
}

/// The three orders of a form.
macro_rules! orders {
    ($mnemonic:expr; $($first:ident $second:ident $third:ident: $handler:ident $kind:ident;)*) => {
        match $mnemonic {
            $(
                Mnemonic::$first => $handler::<ORDER_132, $kind>,
                Mnemonic::$second => $handler::<ORDER_213, $kind>,
                Mnemonic::$third => $handler::<ORDER_231, $kind>,
            )*
            _ => return None,
        }
    };
}

pub(super) fn bind(i: &Instruction) -> Option<Binding> {
    let handler: Handler = orders! { i.mnemonic();
        Vfmadd132ps Vfmadd213ps Vfmadd231ps: packed_single MADD;
        Vfmadd132pd Vfmadd213pd Vfmadd231pd: packed_double MADD;
        Vfmadd132ss Vfmadd213ss Vfmadd231ss: single MADD;
        Vfmadd132sd Vfmadd213sd Vfmadd231sd: double MADD;
        Vfmsub132ps Vfmsub213ps Vfmsub231ps: packed_single MSUB;
        Vfmsub132pd Vfmsub213pd Vfmsub231pd: packed_double MSUB;
        Vfmsub132ss Vfmsub213ss Vfmsub231ss: single MSUB;
        Vfmsub132sd Vfmsub213sd Vfmsub231sd: double MSUB;
        Vfnmadd132ps Vfnmadd213ps Vfnmadd231ps: packed_single NMADD;
        Vfnmadd132pd Vfnmadd213pd Vfnmadd231pd: packed_double NMADD;
        Vfnmadd132ss Vfnmadd213ss Vfnmadd231ss: single NMADD;
        Vfnmadd132sd Vfnmadd213sd Vfnmadd231sd: double NMADD;
        Vfnmsub132ps Vfnmsub213ps Vfnmsub231ps: packed_single NMSUB;
        Vfnmsub132pd Vfnmsub213pd Vfnmsub231pd: packed_double NMSUB;
        Vfnmsub132ss Vfnmsub213ss Vfnmsub231ss: single NMSUB;
        Vfnmsub132sd Vfnmsub213sd Vfnmsub231sd: double NMSUB;
        Vfmaddsub132ps Vfmaddsub213ps Vfmaddsub231ps: packed_single MADDSUB;
        Vfmaddsub132pd Vfmaddsub213pd Vfmaddsub231pd: packed_double MADDSUB;
        Vfmsubadd132ps Vfmsubadd213ps Vfmsubadd231ps: packed_single MSUBADD;
        Vfmsubadd132pd Vfmsubadd213pd Vfmsubadd231pd: packed_double MSUBADD;
    };
    Binding::costing(handler, Cost::Vector)
}

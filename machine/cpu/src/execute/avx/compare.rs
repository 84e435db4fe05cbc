//! Comparisons: AVX's 32 predicates, and those that set flags.

use super::float::{double, packed_double, packed_single, scalar_32, scalar_64, single};
use crate::execute::binding::{Binding, Handler};
use crate::execute::sse::{self, handler};
use crate::execute::sse_float::comparison_flags;
use crate::float::{Context, compare};
use crate::operation::Op;
use crate::operation::decode::Cost;
use crate::{Bus, Cpu, Stop};
use iced_x86::{Instruction, Mnemonic};
use std::cmp::Ordering;

/// The bits of the immediate that select a predicate.
const PREDICATE: u64 = 31;

fn compared_single(op: &Op) -> impl Fn(u32, u32, &mut Context) -> u32 {
    let predicate = (op.immediate & PREDICATE) as u8;
    move |a, b, context| if compare::predicate(a, b, predicate, context) { u32::MAX } else { 0 }
}

fn compared_double(op: &Op) -> impl Fn(u64, u64, &mut Context) -> u64 {
    let predicate = (op.immediate & PREDICATE) as u8;
    move |a, b, context| if compare::predicate(a, b, predicate, context) { u64::MAX } else { 0 }
}

fn vcmpps(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    packed_single(cpu, bus, op, compared_single(op))
}

fn vcmppd(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    packed_double(cpu, bus, op, compared_double(op))
}

fn vcmpss(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    single(cpu, bus, op, compared_single(op))
}

fn vcmpsd(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    double(cpu, bus, op, compared_double(op))
}

#[inline(always)]
fn flags_single(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u32, u32, &mut Context) -> Option<Ordering>,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let b = scalar_32(cpu, bus, op, op.b)?;
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let ordering = function(cpu.registers.xmm(op.a) as u32, b, &mut context);
    sse::conclude(cpu, &context)?;
    cpu.registers.flags.set_status(comparison_flags(ordering));
    Ok(())
}

#[inline(always)]
fn flags_double(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u64, u64, &mut Context) -> Option<Ordering>,
) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let b = scalar_64(cpu, bus, op, op.b)?;
    let mut context = Context::from_mxcsr(cpu.registers.mxcsr);
    let ordering = function(cpu.registers.xmm(op.a) as u64, b, &mut context);
    sse::conclude(cpu, &context)?;
    cpu.registers.flags.set_status(comparison_flags(ordering));
    Ok(())
}

pub(super) fn bind(i: &Instruction) -> Option<Binding> {
    let handler: Handler = match i.mnemonic() {
        Mnemonic::Vcmpps => vcmpps,
        Mnemonic::Vcmppd => vcmppd,
        Mnemonic::Vcmpss => vcmpss,
        Mnemonic::Vcmpsd => vcmpsd,
        Mnemonic::Vcomiss => handler!(flags_single, compare::ordered),
        Mnemonic::Vcomisd => handler!(flags_double, compare::ordered),
        Mnemonic::Vucomiss => handler!(flags_single, compare::unordered),
        Mnemonic::Vucomisd => handler!(flags_double, compare::unordered),
        _ => return None,
    };
    Binding::costing(handler, Cost::Vector)
}

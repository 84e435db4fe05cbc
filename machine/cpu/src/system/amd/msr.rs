//! Registers of AMD's parts. [APM2 "Model-Specific Registers"]

use super::governor;
use crate::costs::Step;
use crate::system::msr::{
    LAST_BANK_REGISTER, Legal, Read, Row, Write, bank_register, command, inert, kept, only, row,
    sysenter_targets, write_bank,
};
use crate::{Bus, Cpu, Stop};
use arch::cpuid::Feature;
use arch::msr;

/// Bits of a performance counter.
const COUNTER: u64 = (1 << 48) - 1;
/// MtrrFixDramEn to Tom2ForceMemTypeWB. [APM2 "SYSCFG"]
const SYSCFG_WRITABLE: u64 = 0x007C_0000;
/// TscFreqSel, always 1. [APM2 "HWCR"]
const HWCR_TSC_FREQUENCY: u64 = 1 << 24;
/// [APM2 "SMBASE Register"]
const SMM_BASE_AT_RESET: u64 = 0x3_0000;

/// IBPB, and SBPB, the selective barrier of family 19h and later, which kernels find out by writing
/// it. [APM2 "Speculation Control MSRs"]
const BARRIER: u64 = 1 << 0;
const SELECTIVE_BARRIER: u64 = 1 << 7;
const FIRST_FAMILY_WITH_SELECTIVE_BARRIER: u32 = 0x19;

/// Without P-states the first four read zero and ignore writes, and there are no others.
const P_STATES: [Row; 5] = [
    row((msr::P_STATE_LIMIT, msr::P_STATE_LIMIT), Read::Of(governor::limit), Write::Ignored),
    row(
        (msr::P_STATE_CONTROL, msr::P_STATE_CONTROL),
        Read::Of(|cpu| cpu.control.governor.control),
        Write::Done(governor::write_state),
    ),
    row((msr::P_STATE_STATUS, msr::P_STATE_STATUS), Read::Of(governor::state), Write::Ignored),
    row(
        (msr::P_STATE_DEFINITIONS, msr::P_STATE_DEFINITIONS),
        Read::Of(|cpu| governor::definition(cpu, 0)),
        Write::Ignored,
    ),
    only(
        Feature::HwPstate,
        row(
            (msr::P_STATE_DEFINITIONS + 1, msr::P_STATE_DEFINITIONS + 7),
            Read::At(|cpu, index| governor::definition(cpu, index + 1)),
            Write::Ignored,
        ),
    ),
];

/// In the order of numbers.
pub const TABLE: &[Row] = {
    use Legal::{Any, Bits, CanonicalBits};
    let [stack, target] = sysenter_targets(CanonicalBits(msr::AMD_SYSENTER_BITS));
    let [limit, control, status, first, others] = P_STATES;
    &[
        only(
            Feature::Ibpb,
            row(
                (msr::PRED_CMD, msr::PRED_CMD),
                Read::Nothing,
                Write::Done(write_prediction_command),
            ),
        ),
        stack,
        target,
        row((msr::MC0_CTL, LAST_BANK_REGISTER), Read::Kept(bank_register), Write::Done(write_bank)),
        inert(msr::PREFETCH_CONTROL, msr::PREFETCH_CONTROL),
        inert(msr::SCALABLE_MACHINE_CHECK, msr::SCALABLE_MACHINE_CHECK + 0x3FF),
        row(
            (msr::PERFORMANCE_CONTROL, msr::PERFORMANCE_CONTROL + 3),
            Read::Kept(performance_control),
            Write::Kept(performance_control, Any),
        ),
        row(
            (msr::PERFORMANCE_COUNTER, msr::PERFORMANCE_COUNTER + 3),
            Read::Kept(performance_counter),
            Write::Kept(performance_counter, Bits(COUNTER)),
        ),
        kept(msr::SYSCFG, |cpu, _| &mut cpu.control.msr.syscfg, Bits(SYSCFG_WRITABLE)),
        row((msr::HWCR, msr::HWCR), Read::Of(|cpu| cpu.control.msr.hwcr), Write::Done(write_hwcr)),
        inert(msr::IO_RANGES, msr::IO_RANGES + 3),
        inert(msr::TOP_MEM, msr::TOP_MEM),
        inert(msr::TOP_MEM2, msr::TOP_MEM2),
        inert(msr::NORTHBRIDGE, msr::NORTHBRIDGE),
        inert(msr::INTERRUPT_PENDING, msr::INTERRUPT_PENDING),
        limit,
        control,
        status,
        first,
        others,
        // Nothing enters system management mode, so its registers keep what a reset leaves.
        row((msr::SMM_BASE, msr::SMM_BASE), Read::Value(SMM_BASE_AT_RESET), Write::Ignored),
        inert(msr::SMM_ADDRESS, msr::SMM_MASK),
        inert(msr::SEV_STATUS, msr::SEV_STATUS),
        row(
            (msr::PERFORMANCE_PAIRS, msr::PERFORMANCE_PAIRS + 11),
            Read::Kept(performance),
            Write::Done(write_performance),
        ),
        inert(msr::CPPC, msr::CPPC + 4),
        // Of the registers for errata, two are kept.
        inert(msr::ERRATA, msr::LS_CFG - 1),
        kept(msr::LS_CFG, |cpu, _| &mut cpu.control.msr.ls_cfg, Any),
        inert(msr::LS_CFG + 1, msr::DE_CFG - 1),
        kept(msr::DE_CFG, |cpu, _| &mut cpu.control.msr.de_cfg, Any),
        inert(msr::DE_CFG + 1, msr::ERRATA + 0x3F),
    ]
};

/// Controls and counters by turns.
fn performance(cpu: &mut Cpu, index: usize) -> &mut u64 {
    &mut cpu.control.msr.performance[index]
}

/// The first four have two numbers.
fn performance_control(cpu: &mut Cpu, index: usize) -> &mut u64 {
    performance(cpu, index * 2)
}

fn performance_counter(cpu: &mut Cpu, index: usize) -> &mut u64 {
    performance(cpu, index * 2 + 1)
}

/// Nothing is predicted here, so a barrier takes its time and has no other effect. Reserved bits
/// fault, and so do reads. [APM2 "Speculation Control MSRs"]
fn write_prediction_command(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    _: usize,
    value: u64,
) -> Result<(), Stop> {
    let is_selective = cpu.model.family() >= FIRST_FAMILY_WITH_SELECTIVE_BARRIER;
    let known = if is_selective { BARRIER | SELECTIVE_BARRIER } else { BARRIER };
    command(cpu, value, known, Step::PredictionBarrier)
}

fn write_hwcr(cpu: &mut Cpu, _: &mut Bus<'_>, _: usize, value: u64) -> Result<(), Stop> {
    cpu.control.msr.hwcr = cpu.control.msr.hwcr & governor::BOOST_OFF | HWCR_TSC_FREQUENCY;
    governor::write_boost(cpu, value);
    Ok(())
}

fn write_performance(cpu: &mut Cpu, _: &mut Bus<'_>, index: usize, value: u64) -> Result<(), Stop> {
    let is_counter = !index.is_multiple_of(2);
    *performance(cpu, index) = if is_counter { value & COUNTER } else { value };
    Ok(())
}

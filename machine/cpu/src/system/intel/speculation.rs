//! Registers against speculation of Intel's parts. [SDM4 "Architectural MSRs"] Nothing is executed
//! speculatively here: they are checked and kept, and what they do takes its time.

use crate::costs::Step;
use crate::system::msr::command;
use crate::{Bus, Cpu, Stop};
use arch::cpuid::Feature;
use arch::msr::SpecCtrl;

/// The barrier of PRED_CMD.
const BARRIER: u64 = 1 << 0;
/// The write-back and invalidation of FLUSH_CMD.
const FLUSH: u64 = 1 << 0;

/// What each bit of SPEC_CTRL needs. STIBP can be written without its feature, and does nothing
/// then.
/// [SDM4 "IA32_SPEC_CTRL"]
const CONTROLS: [(Feature, SpecCtrl); 6] = [
    (Feature::SpecCtrl, SpecCtrl::IBRS.union(SpecCtrl::STIBP)),
    (Feature::Ssbd, SpecCtrl::SSBD),
    (Feature::IpredCtrl, SpecCtrl::IPRED_DIS_U.union(SpecCtrl::IPRED_DIS_S)),
    (Feature::RrsbaCtrl, SpecCtrl::RRSBA_DIS_U.union(SpecCtrl::RRSBA_DIS_S)),
    (Feature::Psfd, SpecCtrl::PSFD),
    (Feature::BhiCtrl, SpecCtrl::BHI_DIS_S),
];

pub(super) fn write_control(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    _: usize,
    value: u64,
) -> Result<(), Stop> {
    let has = CONTROLS.iter().filter(|(feature, _)| cpu.model.has(*feature));
    let known = has.fold(SpecCtrl::empty(), |known, (_, bits)| known.union(*bits));
    if value & !known.bits() != 0 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    cpu.control.msr.spec_ctrl = value;
    cpu.clock.take(Step::SpeculationControl);
    Ok(())
}

pub(super) fn write_prediction_command(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    _: usize,
    value: u64,
) -> Result<(), Stop> {
    command(cpu, value, BARRIER, Step::PredictionBarrier)
}

pub(super) fn write_flush_command(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    _: usize,
    value: u64,
) -> Result<(), Stop> {
    command(cpu, value, FLUSH, Step::CacheFlush)
}

//! P-states of AMD's parts: the first is the base clock and what boosts add to it, the others are
//! slower. [APM2 "P-State Control"]

use crate::system::governor::follow;
use crate::{Bus, Cpu, Stop};
use arch::cpuid::Feature;
use arch::msr::PStateDefinition;

/// CpbDis. [APM2 "HWCR"]
pub const BOOST_OFF: u64 = 1 << 25;
/// Of a P-state's number.
const STATE: u64 = 7;
const MEGAHERTZ: u64 = 1_000_000;
/// What a step of a P-state's multiplier is, with the divisor below.
const STEP: u64 = 25 * MEGAHERTZ;
const DIVISOR: u8 = 8;

/// At which clock the core is to run.
fn hertz(cpu: &Cpu) -> u64 {
    let states = cpu.model.p_states();
    match states.get(state(cpu) as usize) {
        Some(hertz) if state(cpu) > 0 || cpu.control.msr.hwcr & BOOST_OFF != 0 => *hertz,
        _ => cpu.model.core_hertz(),
    }
}

/// The P-state that the core is in; numbers beyond the last are that.
pub fn state(cpu: &Cpu) -> u64 {
    let last = cpu.model.p_states().len().saturating_sub(1) as u64;
    (cpu.control.governor.control & STATE).min(last)
}

/// The first and the last state that software may choose.
pub fn limit(cpu: &Cpu) -> u64 {
    (cpu.model.p_states().len() as u64).saturating_sub(1) << 4
}

pub fn definition(cpu: &Cpu, number: usize) -> u64 {
    let definition = PStateDefinition::new().with_divisor(DIVISOR).with_is_enabled(true);
    let multiplier = |hertz: &u64| (hertz / STEP).min(u8::MAX.into()) as u8;
    let states = cpu.model.p_states();
    states.get(number).map_or(0, |hertz| definition.with_multiplier(multiplier(hertz)).into_bits())
}

/// Models without P-states ignore it.
pub fn write_state(cpu: &mut Cpu, _: &mut Bus<'_>, _: usize, value: u64) -> Result<(), Stop> {
    if !cpu.model.has(Feature::HwPstate) {
        return Ok(());
    }
    cpu.control.governor.control = value & STATE;
    follow(cpu, hertz(cpu));
    Ok(())
}

/// Of HWCR, boosts can be switched.
pub fn write_boost(cpu: &mut Cpu, value: u64) {
    if cpu.model.has(Feature::Cpb) {
        cpu.control.msr.hwcr = cpu.control.msr.hwcr & !BOOST_OFF | value & BOOST_OFF;
        follow(cpu, hertz(cpu));
    }
}

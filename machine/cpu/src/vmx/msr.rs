//! VMX's MSRs. [SDM3 "VMX Capability Reporting Facility"] [SDM4 "IA32_FEATURE_CONTROL"]

use crate::vmx::apic;
use crate::{Bus, Cpu, Stop};
use arch::msr::FEATURE_CONTROL;
use arch::vmx::msr::{BASIC, FeatureControl, SECONDARY_EXIT_CONTROLS};

/// Bits of feature control that exist here.
const KNOWN: u64 = 7;

/// RDMSR of one of VMX's own MSRs; `None` for any other.
pub(crate) fn read(cpu: &mut Cpu, bus: &mut Bus<'_>, number: u32) -> Option<Result<u64, Stop>> {
    if !is_vmx_msr(number) {
        return apic::apicv_read_msr(cpu, bus, number);
    }
    let Some(capabilities) = &cpu.guest.vmx.capabilities else {
        return Some(Err(Stop::GENERAL_PROTECTION));
    };
    if number == FEATURE_CONTROL {
        return Some(Ok(cpu.guest.vmx.feature_control.into_bits()));
    }
    let value = capabilities.msr(number, cpu.model.cr4_permitted().bits());
    Some(value.ok_or(Stop::GENERAL_PROTECTION))
}

/// WRMSR of one of VMX's own MSRs; `None` for any other. The capabilities are read-only.
pub(crate) fn write(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    number: u32,
    value: u64,
) -> Option<Result<(), Stop>> {
    if !is_vmx_msr(number) {
        return apic::apicv_write_msr(cpu, bus, number, value);
    }
    let vmx = &mut cpu.guest.vmx;
    let is_free = number == FEATURE_CONTROL
        && vmx.capabilities.is_some()
        && !vmx.feature_control.is_locked()
        && value & !KNOWN == 0;
    if !is_free {
        return Some(Err(Stop::GENERAL_PROTECTION));
    }
    vmx.feature_control = FeatureControl::from_bits(value);
    Some(Ok(()))
}

/// The time-stamp counter as a guest reads it. [SDM3 "Changes to Instruction Behavior in VMX
/// Non-Root Operation"]
pub(crate) fn guest_tsc(cpu: &Cpu) -> u64 {
    let tsc = cpu.clock.tsc();
    match cpu.guest.running.vmx() {
        None => tsc,
        Some(guest) => guest.tsc(tsc),
    }
}

const fn is_vmx_msr(number: u32) -> bool {
    matches!(number, FEATURE_CONTROL | BASIC..=SECONDARY_EXIT_CONTROLS)
}

impl super::state::Guest {
    /// Scaled, then offset.
    fn tsc(&self, tsc: u64) -> u64 {
        use arch::vmx::{PrimaryControls, SecondaryControls};
        if !self.controls.primary.contains(PrimaryControls::TSC_OFFSETTING) {
            return tsc;
        }
        let scaled = if self.controls.secondary.contains(SecondaryControls::TSC_SCALING) {
            (u128::from(tsc) * u128::from(self.tsc_multiplier) >> 48) as u64
        } else {
            tsc
        };
        scaled.wrapping_add(self.tsc_offset)
    }
}

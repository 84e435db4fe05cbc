//! SVM's MSRs, and the x2APIC MSRs of a guest under x2AVIC. [APM2 "SVM Related MSRs"]

use super::avic::{Avic, ReadOutcome};
use crate::costs::Step;
use crate::svm::apic_page;
use crate::svm::intercept;
use crate::{Attention, Bus, Cpu, Stop};
use arch::control::Efer;
use arch::cpuid::Feature;
use arch::svm::ExitCode;
use arch::svm::msr::*;
use bus::Effect;

/// RDMSR of one of SVM's own MSRs; None for any other.
pub(crate) fn read(cpu: &mut Cpu, bus: &mut Bus<'_>, number: u32) -> Option<Result<u64, Stop>> {
    if (X2APIC_FIRST..=X2APIC_LAST).contains(&number) {
        return read_x2avic(cpu, bus, number);
    }
    if !is_svm_msr(number) {
        return None;
    }
    if !cpu.model.has(Feature::Svm) {
        return Some(Err(Stop::GENERAL_PROTECTION));
    }
    Some(match number {
        VM_CR => Ok(cpu.guest.svm.vm_cr.into_bits()),
        VM_HSAVE_PA => Ok(cpu.guest.svm.host_save),
        TSC_RATIO if cpu.model.has(Feature::TscScale) => Ok(cpu.guest.svm.tsc_ratio),
        IGNNE | SMM_CTL | SVM_KEY => Ok(0),
        // The doorbell is write-only.
        _ => Err(Stop::GENERAL_PROTECTION),
    })
}

/// WRMSR to one of SVM's own MSRs; None for any other.
pub(crate) fn write(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    number: u32,
    value: u64,
) -> Option<Result<(), Stop>> {
    if (X2APIC_FIRST..=X2APIC_LAST).contains(&number) {
        return write_x2avic(cpu, bus, number, value);
    }
    if !is_svm_msr(number) {
        return None;
    }
    if !cpu.model.has(Feature::Svm) {
        return Some(Err(Stop::GENERAL_PROTECTION));
    }
    Some(match number {
        VM_CR => write_vm_cr(cpu, value),
        VM_HSAVE_PA => write_host_save(cpu, value),
        TSC_RATIO if cpu.model.has(Feature::TscScale) => write_tsc_ratio(cpu, value),
        AVIC_DOORBELL if cpu.model.has(Feature::Avic) => ring_doorbell(cpu, bus, value),
        IGNNE | SMM_CTL | SVM_KEY => Ok(()),
        _ => Err(Stop::GENERAL_PROTECTION),
    })
}

/// SVMDIS cannot be set while SVM is on; LOCK freezes itself and SVMDIS.
fn write_vm_cr(cpu: &mut Cpu, value: u64) -> Result<(), Stop> {
    if value & VmCr::RESERVED != 0 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    let (old, mut new) = (cpu.guest.svm.vm_cr, VmCr::from_bits(value));
    if old.locked() {
        new = new.with_locked(true).with_svm_disabled(old.svm_disabled());
    }
    if new.svm_disabled() && cpu.control.efer().contains(Efer::SVM) {
        return Err(Stop::GENERAL_PROTECTION);
    }
    cpu.guest.svm.vm_cr = new;
    Ok(())
}

fn write_host_save(cpu: &mut Cpu, value: u64) -> Result<(), Stop> {
    if value & 0xFFF != 0 || value >> cpu.model.physical_bits() != 0 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    cpu.guest.svm.host_save = value;
    Ok(())
}

fn write_tsc_ratio(cpu: &mut Cpu, value: u64) -> Result<(), Stop> {
    if value & TSC_RATIO_RESERVED != 0 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    cpu.guest.svm.tsc_ratio = value;
    Ok(())
}

fn ring_doorbell(cpu: &mut Cpu, bus: &mut Bus<'_>, value: u64) -> Result<(), Stop> {
    let bits = cpu.guest.svm.behaviour.avic.doorbell_id_bits;
    let target = Avic::doorbell_target(value, bits).ok_or(Stop::GENERAL_PROTECTION)?;
    bus.platform.effect(cpu.visit(), Effect::Doorbell { target });
    cpu.pending.raise(Attention::YIELD);
    cpu.clock.take(Step::Doorbell);
    Ok(())
}

/// Whether EFER.SVME may be set.
pub(crate) fn can_enable_svm(cpu: &Cpu) -> bool {
    cpu.model.has(Feature::Svm) && !cpu.guest.svm.vm_cr.svm_disabled()
}

/// The time-stamp counter as the running software reads it. [APM2 "TSC Ratio MSR"]
pub(crate) fn guest_tsc(cpu: &Cpu) -> u64 {
    let tsc = cpu.clock.tsc();
    match cpu.guest.running.svm() {
        None => tsc,
        Some(guest) => {
            let product = u128::from(tsc) * u128::from(cpu.guest.svm.tsc_ratio);
            let scaled = (product >> 32) as u64;
            scaled.wrapping_add(guest.tsc_offset)
        }
    }
}

fn x2avic(cpu: &Cpu) -> Option<Avic> {
    cpu.guest.running.svm()?.avic.filter(Avic::is_x2apic)
}

fn read_x2avic(cpu: &mut Cpu, bus: &mut Bus<'_>, number: u32) -> Option<Result<u64, Stop>> {
    let avic = x2avic(cpu)?;
    Some(match avic.read_msr(bus.memory, number) {
        ReadOutcome::Value(value) => {
            cpu.clock.take(Step::AvicRead);
            Ok(value)
        }
        ReadOutcome::GeneralProtection => Err(Stop::GENERAL_PROTECTION),
        ReadOutcome::Fault(access) => {
            Err(intercept::exit_fault(cpu, ExitCode::AvicNoAcceleration, access.into_exit_info()))
        }
    })
}

fn write_x2avic(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    number: u32,
    value: u64,
) -> Option<Result<(), Stop>> {
    let mut avic = x2avic(cpu)?;
    let outcome = avic.write_msr(bus.memory, number, value);
    Some(apic_page::apply_avic_write(cpu, bus, avic, outcome))
}

const fn is_svm_msr(number: u32) -> bool {
    matches!(
        number,
        VM_CR | VM_HSAVE_PA | TSC_RATIO | AVIC_DOORBELL | IGNNE | SMM_CTL | SVM_KEY | SMM_KEY
    )
}

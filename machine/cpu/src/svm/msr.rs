//! SVM's MSRs, and the x2APIC MSRs of a guest under x2AVIC. [APM2 "SVM Related MSRs"]

use super::avic::{Avic, ReadOutcome};
use crate::{Bus, Cpu, Stop};
use arch::control::Efer;
use arch::cpuid::Feature;
use arch::svm::ExitCode;
use arch::svm::msr::*;
use bus::Effect;

impl Cpu {
    /// RDMSR of one of SVM's own MSRs; None for any other.
    pub(crate) fn read_svm_msr(
        &mut self,
        bus: &mut Bus<'_>,
        number: u32,
    ) -> Option<Result<u64, Stop>> {
        if (X2APIC_FIRST..=X2APIC_LAST).contains(&number) {
            return self.read_x2avic(bus, number);
        }
        if !is_svm_msr(number) {
            return None;
        }
        if !self.model.has(Feature::Svm) {
            return Some(Err(Stop::GENERAL_PROTECTION));
        }
        Some(match number {
            VM_CR => Ok(self.guest.svm.vm_cr.into_bits()),
            VM_HSAVE_PA => Ok(self.guest.svm.host_save),
            TSC_RATIO if self.model.has(Feature::TscScale) => Ok(self.guest.svm.tsc_ratio),
            IGNNE | SMM_CTL | SVM_KEY => Ok(0),
            // The doorbell is write-only.
            _ => Err(Stop::GENERAL_PROTECTION),
        })
    }

    /// WRMSR to one of SVM's own MSRs; None for any other.
    pub(crate) fn write_svm_msr(
        &mut self,
        bus: &mut Bus<'_>,
        number: u32,
        value: u64,
    ) -> Option<Result<(), Stop>> {
        if (X2APIC_FIRST..=X2APIC_LAST).contains(&number) {
            return self.write_x2avic(bus, number, value);
        }
        if !is_svm_msr(number) {
            return None;
        }
        if !self.model.has(Feature::Svm) {
            return Some(Err(Stop::GENERAL_PROTECTION));
        }
        Some(match number {
            VM_CR => self.write_vm_cr(value),
            VM_HSAVE_PA => self.write_host_save(value),
            TSC_RATIO if self.model.has(Feature::TscScale) => self.write_tsc_ratio(value),
            AVIC_DOORBELL if self.model.has(Feature::Avic) => self.ring_doorbell(bus, value),
            IGNNE | SMM_CTL | SVM_KEY => Ok(()),
            _ => Err(Stop::GENERAL_PROTECTION),
        })
    }

    /// SVMDIS cannot be set while SVM is on; LOCK freezes itself and SVMDIS.
    fn write_vm_cr(&mut self, value: u64) -> Result<(), Stop> {
        if value & VmCr::RESERVED != 0 {
            return Err(Stop::GENERAL_PROTECTION);
        }
        let (old, mut new) = (self.guest.svm.vm_cr, VmCr::from_bits(value));
        if old.locked() {
            new = new.with_locked(true).with_svm_disabled(old.svm_disabled());
        }
        if new.svm_disabled() && self.control.efer.contains(Efer::SVM) {
            return Err(Stop::GENERAL_PROTECTION);
        }
        self.guest.svm.vm_cr = new;
        Ok(())
    }

    fn write_host_save(&mut self, value: u64) -> Result<(), Stop> {
        if value & 0xFFF != 0 || value >> self.model.physical_bits() != 0 {
            return Err(Stop::GENERAL_PROTECTION);
        }
        self.guest.svm.host_save = value;
        Ok(())
    }

    fn write_tsc_ratio(&mut self, value: u64) -> Result<(), Stop> {
        if value & TSC_RATIO_RESERVED != 0 {
            return Err(Stop::GENERAL_PROTECTION);
        }
        self.guest.svm.tsc_ratio = value;
        Ok(())
    }

    fn ring_doorbell(&mut self, bus: &mut Bus<'_>, value: u64) -> Result<(), Stop> {
        let bits = self.guest.svm.behaviour.avic.doorbell_id_bits;
        let target = Avic::doorbell_target(value, bits).ok_or(Stop::GENERAL_PROTECTION)?;
        bus.platform.effect(self.visit(), Effect::Doorbell { target });
        self.spend(self.guest.svm.costs.doorbell);
        Ok(())
    }

    /// Whether EFER.SVME may be set.
    pub(crate) fn can_enable_svm(&self) -> bool {
        self.model.has(Feature::Svm) && !self.guest.svm.vm_cr.svm_disabled()
    }

    /// The time-stamp counter as the running software reads it. [APM2 "TSC Ratio MSR"]
    pub(crate) fn svm_guest_tsc(&self) -> u64 {
        let tsc = self.tsc();
        match &self.guest.svm.current {
            None => tsc,
            Some(guest) => {
                let product = u128::from(tsc) * u128::from(self.guest.svm.tsc_ratio);
                let scaled = (product >> 32) as u64;
                scaled.wrapping_add(guest.tsc_offset)
            }
        }
    }

    fn x2avic(&self) -> Option<Avic> {
        self.guest.svm.current.as_ref()?.avic.filter(Avic::is_x2apic)
    }

    fn read_x2avic(&mut self, bus: &mut Bus<'_>, number: u32) -> Option<Result<u64, Stop>> {
        let avic = self.x2avic()?;
        Some(match avic.read_msr(bus.memory, number) {
            ReadOutcome::Value(value) => {
                self.spend(self.guest.svm.costs.avic_read);
                Ok(value)
            }
            ReadOutcome::GeneralProtection => Err(Stop::GENERAL_PROTECTION),
            ReadOutcome::Fault(access) => {
                Err(self.exit_fault(ExitCode::AvicNoAcceleration, access.into_exit_info()))
            }
        })
    }

    fn write_x2avic(
        &mut self,
        bus: &mut Bus<'_>,
        number: u32,
        value: u64,
    ) -> Option<Result<(), Stop>> {
        let mut avic = self.x2avic()?;
        let outcome = avic.write_msr(bus.memory, number, value);
        Some(self.apply_avic_write(bus, avic, outcome))
    }
}

const fn is_svm_msr(number: u32) -> bool {
    matches!(
        number,
        VM_CR | VM_HSAVE_PA | TSC_RATIO | AVIC_DOORBELL | IGNNE | SMM_CTL | SVM_KEY | SMM_KEY
    )
}

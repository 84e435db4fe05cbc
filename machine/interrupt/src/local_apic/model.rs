//! What differs between the local APICs of processor models.

use arch::apic::{ApicVersion, ExtendedFeature, LocalVector, Register};
use arch::identity::ApicId;
use serde::{Deserialize, Serialize};

/// What a processor model's local APIC has, and the choices where manuals and parts differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalApicModel {
    /// The initial identifier; xAPIC mode has its low eight bits.
    pub id: ApicId,
    /// BSC, BSP: reads as one in IA32_APIC_BASE, for good.
    pub is_bootstrap: bool,
    /// Version register bits 7:0.
    pub version: u8,
    /// Entries of the local vector table, less one: 5 without CMCI, 6 with it.
    pub last_local_vector: u8,
    /// AMD's registers from 400h.
    pub has_extended_space: bool,
    /// Without it, setting EXTD raises #GP.
    pub supports_x2apic: bool,
    /// Without it, bit 18 of the timer's entry cannot be set.
    pub supports_tsc_deadline: bool,
    /// Without it, bit 12 of the spurious-vector register cannot be set.
    pub supports_eoi_broadcast_suppression: bool,
    /// Frequency of the timer's clock before division.
    pub timer_hertz: u64,
    /// The ID register of xAPIC mode takes writes. Some Intel parts have it read-only.
    pub id_is_writable: bool,
    /// Fixed IPIs can be level-triggered. Intel parts since the Pentium 4 send them as edge.
    pub has_level_triggered_ipis: bool,
    /// RDMSR of 80Bh gives 0. The manuals call the register write-only.
    pub eoi_is_readable: bool,
    /// WRMSR of 830h with bit 12 set raises #GP. Otherwise the bit is dropped.
    pub command_status_is_reserved: bool,
    /// Delivering a performance-counter interrupt masks its entry.
    pub masks_performance_on_delivery: bool,
}

impl LocalApicModel {
    /// Zen family. [APM2 "APIC Registers"]
    pub fn amd(id: ApicId, is_bootstrap: bool) -> Self {
        Self {
            id,
            is_bootstrap,
            version: 0x10,
            last_local_vector: 5,
            has_extended_space: true,
            supports_x2apic: true,
            supports_tsc_deadline: false,
            supports_eoi_broadcast_suppression: false,
            timer_hertz: 100_000_000,
            id_is_writable: true,
            has_level_triggered_ipis: true,
            eoi_is_readable: false,
            command_status_is_reserved: true,
            masks_performance_on_delivery: false,
        }
    }

    /// Ivy Bridge and later servers. [SDM3 "Local APIC Version Register"]
    pub fn intel(id: ApicId, is_bootstrap: bool) -> Self {
        Self {
            id,
            is_bootstrap,
            version: 0x15,
            last_local_vector: 6,
            has_extended_space: false,
            supports_x2apic: true,
            supports_tsc_deadline: true,
            supports_eoi_broadcast_suppression: true,
            timer_hertz: 100_000_000,
            id_is_writable: false,
            has_level_triggered_ipis: false,
            eoi_is_readable: false,
            command_status_is_reserved: false,
            masks_performance_on_delivery: true,
        }
    }

    pub(super) fn version(&self) -> ApicVersion {
        ApicVersion::new()
            .with_version(self.version)
            .with_last_local_vector(self.last_local_vector)
            .with_has_eoi_broadcast_suppression(self.supports_eoi_broadcast_suppression)
            .with_has_extended_space(self.has_extended_space)
    }

    pub(super) fn extended_feature(&self) -> ExtendedFeature {
        ExtendedFeature::new()
            .with_has_interrupt_enable(true)
            .with_has_specific_eoi(true)
            .with_has_eight_bit_id(true)
            .with_extended_local_vectors(4)
    }

    /// Whether this model has `register` at all, in any mode.
    pub(super) fn has(&self, register: Register) -> bool {
        match register {
            Register::LocalVector(LocalVector::CorrectedMachineCheck) => {
                self.last_local_vector >= 6
            }
            Register::LocalVector(LocalVector::Thermal) => self.last_local_vector >= 5,
            Register::LocalVector(LocalVector::Performance) => self.last_local_vector >= 4,
            Register::ExtendedFeature
            | Register::ExtendedControl
            | Register::SpecificEndOfInterrupt
            | Register::InterruptEnable(_)
            | Register::ExtendedLocalVector(_) => self.has_extended_space,
            _ => true,
        }
    }
}

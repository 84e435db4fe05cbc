//! Local sources: the LINT pins, counters, sensors and errors.
//! [SDM3 "Local Vector Table"] [APM2 "Local Interrupts"]

use super::{Acceptance, LocalApic};
use arch::apic::{DeliveryMode, Esr, FIRST_LEGAL_VECTOR, LocalVector, Lvt, Register};
use arch::identity::Vector;

/// A source inside the processor that has an entry in the local vector table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalSource {
    /// A counter has overflowed.
    PerformanceCounter,
    /// The sensor has crossed a threshold.
    Thermal,
    /// CMCI, on parts that have its entry.
    #[doc(alias = "CMCI")]
    CorrectedMachineCheck,
    /// AMD's extended entries, 0–3 (IBS, MCA thresholds).
    Extended(u8),
}

/// Whether a pin just became asserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raised {
    Yes,
    No,
}

impl LocalApic {
    /// An event of a local source. Masked entries drop it.
    pub fn signal(&mut self, source: LocalSource) -> Acceptance {
        let register = match source {
            LocalSource::PerformanceCounter => Register::LocalVector(LocalVector::Performance),
            LocalSource::Thermal => Register::LocalVector(LocalVector::Thermal),
            LocalSource::CorrectedMachineCheck => {
                Register::LocalVector(LocalVector::CorrectedMachineCheck)
            }
            LocalSource::Extended(index @ 0..4) => Register::ExtendedLocalVector(index),
            LocalSource::Extended(_) => return Acceptance::Ignored,
        };
        if !self.model.has(register) {
            return Acceptance::Ignored;
        }
        let acceptance = self.deliver_local(register);
        if source == LocalSource::PerformanceCounter
            && self.model.masks_performance_on_delivery
            && acceptance != Acceptance::Ignored
        {
            self.write_raw(register, self.read_raw(register) | Lvt::MASK);
        }
        acceptance
    }

    /// The level of LINT0. An ExtINT there shows in [`Self::extint_pending`], not in the result.
    pub fn lint0(&mut self, asserted: bool) -> Acceptance {
        let raised = if asserted && !self.lint0_is_asserted { Raised::Yes } else { Raised::No };
        self.lint0_is_asserted = asserted;
        self.sample_lint0(raised)
    }

    /// Lets LINT0 have its effect, after its level or its entry changed.
    pub(super) fn sample_lint0(&mut self, raised: Raised) -> Acceptance {
        let register = Register::LocalVector(LocalVector::Lint0);
        let entry = Lvt::from_bits(self.read_raw(register));
        let is_fixed = entry.delivery_mode() == DeliveryMode::Fixed;
        if entry.delivery_mode() == DeliveryMode::ExtInt {
            return Acceptance::Ignored;
        }
        if !(is_fixed && entry.is_level()) {
            return match raised {
                Raised::Yes => self.deliver_local(register),
                Raised::No => Acceptance::Ignored,
            };
        }
        if !self.lint0_is_asserted || entry.remote_irr() {
            return Acceptance::Ignored;
        }
        let acceptance = self.deliver_local(register);
        if acceptance == Acceptance::Queued {
            self.write_raw(register, entry.with_remote_irr(true).into_bits());
        }
        acceptance
    }

    /// The EOI of a level-triggered vector re-arms LINT0, which asserts again if it still is.
    pub(super) fn end_lint0(&mut self, vector: Vector) {
        let register = Register::LocalVector(LocalVector::Lint0);
        let entry = Lvt::from_bits(self.read_raw(register));
        if entry.remote_irr() && entry.vector() == vector.0 {
            self.write_raw(register, entry.with_remote_irr(false).into_bits());
            self.sample_lint0(Raised::No);
        }
    }

    /// The processor is asked to take an interrupt, the APIC's own or the 8259 pair's.
    pub fn has_interrupt(&self) -> bool {
        self.pending().is_some() || self.extint_pending()
    }

    /// The 8259 pair wants an interrupt-acknowledge cycle, through LINT0 as ExtINT or, on the
    /// bootstrap processor, past an APIC that is disabled in IA32_APIC_BASE.
    pub fn extint_pending(&self) -> bool {
        if !self.lint0_is_asserted {
            return false;
        }
        if !self.is_enabled() {
            return self.model.is_bootstrap;
        }
        let entry = Lvt::from_bits(self.read_raw(Register::LocalVector(LocalVector::Lint0)));
        !entry.is_masked() && entry.delivery_mode() == DeliveryMode::ExtInt
    }

    /// A rising edge of LINT1, which is the NMI pin when the APIC is disabled.
    ///
    /// DEVIATION(SDM3 "Local Vector Table"): LINT1 is edge-triggered whatever its entry says.
    pub fn lint1_edge(&mut self) -> Acceptance {
        if self.is_enabled() {
            self.deliver_local(Register::LocalVector(LocalVector::Lint1))
        } else {
            Acceptance::Nmi
        }
    }

    /// Delivers an entry of the local vector table unless it is masked.
    pub(super) fn deliver_local(&mut self, register: Register) -> Acceptance {
        let entry = Lvt::from_bits(self.read_raw(register));
        let mode = entry.delivery_mode();
        if entry.is_masked() || !self.is_enabled() || mode == DeliveryMode::Startup {
            return Acceptance::Ignored;
        }
        let is_level = entry.is_level() && mode == DeliveryMode::Fixed;
        self.deliver(mode, Vector(entry.vector()), is_level)
    }

    /// Records an error. Its interrupt comes once until software reads it out through ESR.
    /// [SDM3 "Error Handling"]
    pub(super) fn raise_error(&mut self, error: Esr) {
        if self.gathered_errors & error.bits() != 0 {
            return;
        }
        self.gathered_errors |= error.bits();
        let register = Register::LocalVector(LocalVector::Error);
        let entry = Lvt::from_bits(self.read_raw(register));
        if entry.is_masked() || !self.is_enabled() {
            return;
        }
        if entry.vector() < FIRST_LEGAL_VECTOR {
            // An error about the error entry itself cannot be signalled through it.
            self.gathered_errors |= Esr::RECEIVE_ILLEGAL_VECTOR.bits();
        } else {
            self.deliver_local(register);
        }
    }
}

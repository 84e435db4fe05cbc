//! The local APIC of one logical processor. [APM2 "Local APIC"] [SDM3 "The Local APIC"]
//!
//! Modelled: xAPIC and x2APIC mode with every register, the mode transitions, acceptance and
//! priority, the local vector table, the timer in its three modes, errors, AMD's extended space.
//!
//! DEVIATION(SDM3 "Focus Processor"): no focus checking, which current parts do not have either.
//! DEVIATION(APM2 "Remote Read"): remote reads are never sent; their status stays invalid.

mod access;
mod counting;
mod destination;
mod local_vector;
mod model;
mod register;
mod timer;

use crate::page::{self, ApicPage, Bank, RegisterPage};
use arch::apic::{ApicBase, Dfr, ExtendedControl, LocalVector, Lvt, Mode, Register, Svr, X2Ldr};
use arch::identity::{ApicId, Vector};
use arch::time::Picoseconds;
use serde::{Deserialize, Serialize};

pub use local_vector::LocalSource;
pub use model::LocalApicModel;
use timer::Timer;

/// The access raises #GP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// What an interrupt does at the local APIC that it reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// IRR has it; [`LocalApic::pending`] tells when it may be taken.
    Queued,
    /// The processor has an NMI to take.
    Nmi,
    /// The processor has a system management interrupt to take.
    Smi,
    /// The processor has INIT to take.
    Init,
    /// The vector is the page number of the entry point.
    Startup(u8),
    /// The vector comes from an interrupt-acknowledge cycle to the 8259 pair. The processor holds
    /// the request; the local APIC does not.
    ExtInt,
    /// It is masked, disabled, illegal or of no meaning here.
    Ignored,
}

/// A local APIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalApic {
    model: LocalApicModel,
    base: u64,
    page: RegisterPage,
    timer: Timer,
    /// Errors since the last write to ESR.
    gathered_errors: u32,
    lint0_is_asserted: bool,
    /// The vector that [`LocalApic::pending`] reports, kept up to date by every change to TPR, IRR,
    /// ISR and IER, since a processor asks before every instruction.
    deliverable: Option<Vector>,
}

impl LocalApic {
    /// A local APIC after power-on.
    pub fn new(model: LocalApicModel) -> Self {
        let mut apic = Self {
            model,
            base: 0,
            page: RegisterPage::default(),
            timer: Timer::default(),
            gathered_errors: 0,
            lint0_is_asserted: false,
            deliverable: None,
        };
        apic.reset();
        apic
    }

    /// What it was made from.
    pub fn model(&self) -> &LocalApicModel {
        &self.model
    }

    /// Power-on reset. The level of LINT0 is the board's and stays.
    pub fn reset(&mut self) {
        self.base = ApicBase::new()
            .with_is_bootstrap(self.model.is_bootstrap)
            .with_is_enabled(true)
            .with_frame(ApicBase::RESET_ADDRESS >> 12)
            .into_bits();
        self.reset_registers(self.model.id.0 << 24);
    }

    /// INIT: everything but the identifier and IA32_APIC_BASE is as after reset.
    /// [SDM3 "Local APIC State After an INIT Reset"]
    pub fn init(&mut self) {
        self.reset_registers(self.page.read_u32(Register::Id.offset()));
    }

    fn reset_registers(&mut self, id_register: u32) {
        self.page = RegisterPage::default();
        self.timer = Timer::default();
        self.gathered_errors = 0;
        self.write_raw(Register::Id, id_register);
        self.write_raw(Register::Version, self.model.version().into_bits());
        self.write_raw(Register::DestinationFormat, Dfr::RESET);
        self.write_raw(Register::SpuriousVector, Svr::RESET);
        for entry in LocalVector::ALL {
            self.write_raw(Register::LocalVector(entry), Lvt::RESET);
        }
        if self.model.has_extended_space {
            let feature = self.model.extended_feature();
            self.write_raw(Register::ExtendedFeature, feature.into_bits());
            for index in 0..8 {
                self.write_raw(Register::InterruptEnable(index), !0);
            }
            for index in 0..feature.extended_local_vectors() {
                self.write_raw(Register::ExtendedLocalVector(index), Lvt::RESET);
            }
        }
        if self.is_x2apic() {
            self.derive_x2apic_identity();
        }
        self.update();
    }

    fn derive_x2apic_identity(&mut self) {
        self.write_raw(Register::Id, self.model.id.0);
        let logical = X2Ldr::of(self.model.id.0).into_bits();
        self.write_raw(Register::LogicalDestination, logical);
    }

    /// The identifier by which messages find this APIC: in xAPIC mode what software left in the ID
    /// register.
    pub fn id(&self) -> ApicId {
        let register = self.read_raw(Register::Id);
        ApicId(if self.is_x2apic() { register } else { register >> 24 })
    }

    /// What a register would read as, whatever the mode, with nothing changed by it; `None` if the
    /// model lacks it. For readers of reports.
    pub fn peek(&self, register: Register, now: Picoseconds) -> Option<u32> {
        self.model.has(register).then(|| self.clone().read_register(register, now))
    }

    /// IA32_APIC_BASE.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// As IA32_APIC_BASE has it.
    pub fn mode(&self) -> Mode {
        ApicBase::from_bits(self.base).mode()
    }

    /// Enabled in IA32_APIC_BASE. CPUID's APIC bit follows this.
    pub fn is_enabled(&self) -> bool {
        ApicBase::from_bits(self.base).is_enabled()
    }

    /// EXTD of IA32_APIC_BASE.
    pub fn is_x2apic(&self) -> bool {
        ApicBase::from_bits(self.base).is_x2apic()
    }

    /// Enabled in IA32_APIC_BASE and in the spurious-vector register.
    pub fn is_software_enabled(&self) -> bool {
        self.is_enabled() && self.spurious().is_enabled()
    }

    /// Writes IA32_APIC_BASE. Disabling loses all state; the bootstrap flag is read-only.
    /// [SDM3 "Enabling or Disabling the Local APIC"] [SDM3 "x2APIC State Transitions"]
    pub fn write_base(
        &mut self,
        value: u64,
        _now: Picoseconds,
        physical_bits: u8,
    ) -> Result<(), Refused> {
        let next = ApicBase::from_bits(value);
        let before = self.mode();
        let wants_missing_mode = next.is_x2apic() && !self.model.supports_x2apic;
        if value & ApicBase::reserved(physical_bits) != 0
            || wants_missing_mode
            || !before.may_become(next.mode())
        {
            return Err(Refused);
        }
        self.base = next.with_is_bootstrap(self.model.is_bootstrap).into_bits();
        match (before, next.mode()) {
            (Mode::Disabled, Mode::XApic) | (Mode::XApic | Mode::X2Apic, Mode::Disabled) => {
                self.reset_registers(self.model.id.0 << 24);
            }
            (Mode::XApic, Mode::X2Apic) => {
                self.write_raw(Register::CommandHigh, 0);
                self.derive_x2apic_identity();
            }
            _ => {}
        }
        Ok(())
    }

    /// TPR, all eight bits.
    #[doc(alias = "TPR")]
    pub fn task_priority(&self) -> u8 {
        self.read_raw(Register::TaskPriority) as u8
    }

    /// Sets TPR; CR8 is its bits 7:4.
    pub fn set_task_priority(&mut self, priority: u8) {
        self.write_raw(Register::TaskPriority, u32::from(priority));
        self.update();
    }

    /// The highest requested vector, if its class is above the processor's priority. Constant time.
    #[inline]
    pub fn pending(&self) -> Option<Vector> {
        self.deliverable
    }

    /// The processor takes what is pending: its vector moves from IRR to ISR. The spurious vector,
    /// and no other change, if nothing is pending any more. [SDM3 "Spurious Interrupt"]
    pub fn acknowledge(&mut self) -> Vector {
        let Some(vector) = self.deliverable else {
            return Vector(self.spurious().vector());
        };
        self.page.start_service(vector);
        self.update();
        vector
    }

    fn spurious(&self) -> Svr {
        Svr::from_bits(self.read_raw(Register::SpuriousVector))
    }

    fn read_raw(&self, register: Register) -> u32 {
        self.page.read_u32(register.offset())
    }

    fn write_raw(&mut self, register: Register, value: u32) {
        self.page.write_u32(register.offset(), value);
    }

    /// Recomputes PPR and what is deliverable.
    fn update(&mut self) {
        let priority = self.page.update_processor_priority();
        self.deliverable = if self.is_enabled() {
            self.highest_enabled_request().filter(|v| page::is_deliverable(*v, priority))
        } else {
            None
        };
    }

    /// The highest vector in IRR that AMD's interrupt enable registers let through.
    /// [APM2 "Interrupt Enable Registers"]
    fn highest_enabled_request(&self) -> Option<Vector> {
        let control = ExtendedControl::from_bits(self.read_raw(Register::ExtendedControl));
        if !control.enables_interrupt_enable() {
            return self.page.highest(Bank::Request);
        }
        let enabled =
            core::array::from_fn(|index| self.read_raw(Register::InterruptEnable(index as u8)));
        self.page.vectors(Bank::Request).intersection(&page::VectorSet(enabled)).highest()
    }
}

#[cfg(test)]
mod tests;

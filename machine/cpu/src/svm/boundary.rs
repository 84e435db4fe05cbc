//! What happens to a guest between two instructions: exits that follow an instruction, injected
//! events, virtual interrupts and NMIs. [APM2 "Event Injection"] [APM2 "Virtual Interrupts"]

use super::IdleHltPending;
use super::avic::{DoorbellReception, IpiOutcome, IpiStep};
use super::state::Exit;
use crate::state::Attention;
use crate::state::{Event, Origin};
use crate::stop::SoftwareSource;
use crate::{Bus, Cpu, Stop};
use arch::control::rflags;
use arch::exception;
use arch::identity::Vector;
use arch::svm::ExitCode;
use arch::svm::event::{EventType, Injection};
use arch::svm::intercept::Vector3;
use arch::svm::vmcb::InterruptControl;
use bus::{ControlBlock, Effect, Happening};

/// The error code of #SX for an INIT. [APM2 "#SX"]
const INIT_REDIRECTED: u32 = 1;

impl Cpu {
    /// A doorbell of AVIC reaches this core. [APM2 "AVIC Doorbell"]
    pub fn receive_doorbell(&mut self) {
        let running = self.guest.svm.current.as_ref().and_then(|guest| guest.avic.as_ref());
        if DoorbellReception::of(running) == DoorbellReception::Evaluate {
            self.pending.attention |= Attention::VIRTUAL_INTERRUPT;
        }
    }

    /// First of all at a boundary: what the last instruction, or VMRUN, left to be done. True while
    /// an IPI has steps left, which come before the next instruction.
    pub(crate) fn svm_finish_instruction(&mut self, bus: &mut Bus<'_>) -> Result<bool, Stop> {
        if self.send_pending_ipi(bus) {
            return Ok(true);
        }
        let Some(guest) = self.guest.svm.current.as_mut() else {
            self.pending.attention.remove(Attention::GUEST_BOUNDARY);
            return Ok(false);
        };
        if guest.exit.is_some() {
            return Err(Stop::VM_EXIT);
        }
        self.pending.attention.remove(Attention::GUEST_BOUNDARY);
        if let Some(event) = guest.injection.take() {
            self.inject(bus, event)?;
        }
        Ok(false)
    }

    /// Takes the steps of an accelerated IPI: those up to the next write of an IRR, or one a turn.
    /// True if some are left.
    ///
    /// What sending takes comes before IRR is written: a target that looks at its page by itself
    /// finds the vector no sooner than the doorbell would have told it.
    fn send_pending_ipi(&mut self, bus: &mut Bus<'_>) -> bool {
        let stepwise = self.guest.svm.behaviour.sends_ipis_in_steps;
        let visit = self.visit();
        let Some(guest) = self.guest.svm.current.as_mut() else { return false };
        let (Some(avic), Some(mut ipi)) = (guest.avic, guest.ipi.take()) else { return false };
        loop {
            if let Some(page) = ipi.next_page()
                && !guest.ipi_is_paid
                && !avic.behaviour.erratum_1235
            {
                // To itself a processor writes without tables and doorbell.
                let costs = &self.guest.svm.costs;
                let is_own = page == avic.backing_page.0;
                self.clock.0 += if is_own { costs.avic_write.0 } else { costs.avic_send.0 };
                guest.ipi_is_paid = true;
                guest.ipi = Some(ipi);
                self.pending.attention |= Attention::YIELD;
                return true;
            }
            match ipi.step(&avic, bus.memory) {
                IpiStep::Continue => {}
                IpiStep::Late => {
                    self.clock.0 += self.guest.svm.costs.avic_send.0;
                    guest.ipi = Some(ipi);
                    self.pending.attention |= Attention::YIELD;
                    return true;
                }
                IpiStep::Posted { page, vector } => {
                    guest.ipi_is_paid = false;
                    bus.platform.record(visit, Happening::Posted { place: page, vector });
                }
                IpiStep::Doorbell(target) => {
                    bus.platform.effect(visit, Effect::Doorbell { target });
                    self.pending.attention |= Attention::YIELD;
                }
                IpiStep::Complete(IpiOutcome::Delivered { reaches_sender }) => {
                    self.pending.attention.set(
                        Attention::VIRTUAL_INTERRUPT,
                        reaches_sender
                            || self.pending.attention.contains(Attention::VIRTUAL_INTERRUPT),
                    );
                    return false;
                }
                IpiStep::Complete(IpiOutcome::Exit(incomplete)) => {
                    guest.exit = Some(Exit {
                        code: ExitCode::AvicIncompleteIpi,
                        info: incomplete.into_exit_info(),
                        next_rip: 0,
                    });
                    return false;
                }
            }
            if stepwise {
                guest.ipi = Some(ipi);
                self.pending.attention |= Attention::YIELD;
                return true;
            }
        }
    }

    /// EVENTINJ: unconditional, whatever IF, the shadow, TPR or GIF say.
    fn inject(&mut self, bus: &mut Bus<'_>, event: Injection) -> Result<(), Stop> {
        let this = self.registers.ip;
        let vector = event.vector();
        let error = event.has_error_code().then_some(event.error_code());
        let next_rip = self.guest.svm.current.as_ref().map_or(0, |guest| guest.injection_next_rip);
        let event = match event.event_type() {
            EventType::Nmi => {
                self.block_guest_nmis();
                Event { vector: exception::NMI, error: None, origin: Origin::External }
            }
            EventType::Exception => {
                // INT3 and INTO return behind themselves.
                if matches!(vector, exception::BREAKPOINT | exception::OVERFLOW) && next_rip != 0 {
                    self.registers.ip = next_rip;
                }
                Event { vector, error, origin: Origin::Exception }
            }
            EventType::SoftwareInterrupt => {
                if next_rip != 0 {
                    self.registers.ip = next_rip;
                }
                Event { vector, error: None, origin: Origin::Software(SoftwareSource::Int) }
            }
            EventType::Interrupt | EventType::Reserved(_) => {
                Event { vector, error: None, origin: Origin::External }
            }
        };
        self.pending.attention.remove(Attention::SHADOW);
        self.raise_injected(bus, event).inspect_err(|_| self.registers.ip = this)
    }

    /// An NMI enters the guest: no other until its IRET.
    fn block_guest_nmis(&mut self) {
        match self.guest.svm.current.as_mut().filter(|guest| guest.interrupts.virtual_nmi_enabled())
        {
            Some(guest) => guest.interrupts.set_is_nmi_masked(true),
            None => self.pending.nmi_blocked = true,
        }
    }

    /// IRET ends the blocking of NMIs: V_NMI_MASK under virtual NMI.
    pub(crate) fn svm_unblock_nmis(&mut self) {
        match self.guest.svm.current.as_mut().filter(|guest| guest.interrupts.virtual_nmi_enabled())
        {
            Some(guest) => {
                guest.interrupts.set_is_nmi_masked(false);
                self.pending.attention |= Attention::VIRTUAL_NMI;
            }
            None => self.pending.nmi_blocked = false,
        }
    }

    /// In a guest with V_INTR_MASKING the host's IF decides, not the guest's.
    /// [APM2 "Virtualizing APIC.TPR"]
    pub(crate) fn svm_accepts_interrupts(&self, own: bool) -> bool {
        let is_open = match &self.guest.svm.current {
            Some(guest) if guest.interrupts.masks_interrupts() => {
                guest.host.flags & rflags::IF != 0
            }
            _ => own,
        };
        self.guest.svm.global_interrupts && is_open
    }

    /// GIF, an intercept, or VM_CR.R_INIT.
    pub(crate) fn svm_holds_init(&self) -> bool {
        let is_intercepted = self
            .guest
            .svm
            .current
            .as_ref()
            .is_some_and(|guest| guest.intercepts.vector3.contains(Vector3::INIT));
        !self.guest.svm.global_interrupts || is_intercepted || self.guest.svm.vm_cr.redirects_init()
    }

    /// VM_CR.R_INIT: #SX. [APM2 "VM_CR MSR (C001_0114h)"]
    pub(crate) fn svm_init_becomes(&self) -> Option<(u8, u32)> {
        let redirects = self.guest.svm.vm_cr.redirects_init();
        redirects.then_some((exception::SECURITY, INIT_REDIRECTED))
    }

    /// An exit in the middle of a software interrupt reports where it returns to.
    pub(crate) fn svm_report_next_ip(&mut self, next: u64) {
        let exit = self.guest.svm.current.as_mut().and_then(|guest| guest.exit.as_mut());
        if let Some(exit) = exit {
            exit.next_rip = next;
        }
    }

    /// A physical event is about to be taken: the exit for it, if intercepted.
    pub(super) fn intercept_physical(&mut self, bit: Vector3, code: ExitCode) -> Result<(), Stop> {
        match &self.guest.svm.current {
            Some(guest) if guest.intercepts.vector3.contains(bit) => {
                Err(self.exit_fault(code, [0, 0]))
            }
            _ => Ok(()),
        }
    }

    /// Virtual interrupts and NMIs, after all physical events; one at most.
    pub(crate) fn svm_take_virtual_events(&mut self, bus: &mut Bus<'_>) -> Result<(), Stop> {
        let Some(guest) = &self.guest.svm.current else {
            self.pending.attention.remove(Attention::VIRTUAL_INTERRUPT | Attention::VIRTUAL_NMI);
            return Ok(());
        };
        let has_avic = guest.avic.is_some();
        if self.pending.attention.contains(Attention::VIRTUAL_NMI) && self.take_virtual_nmi(bus)? {
            return Ok(());
        }
        if !self.pending.attention.contains(Attention::VIRTUAL_INTERRUPT) {
            return Ok(());
        }
        if has_avic { self.take_avic_interrupt(bus) } else { self.take_v_irq(bus) }
    }

    /// Whether a virtual event would end HLT now.
    pub(crate) fn svm_has_virtual_event(&mut self, bus: &mut Bus<'_>) -> bool {
        let is_open = self.accepts_virtual_interrupts();
        let gif = self.virtual_gif();
        let Some(guest) = &self.guest.svm.current else {
            // STI and kin raise the flag whether there is a guest or not.
            self.pending.attention.remove(Attention::VIRTUAL_INTERRUPT | Attention::VIRTUAL_NMI);
            return false;
        };
        let interrupts = guest.interrupts;
        let nmi = interrupts.virtual_nmi_enabled() && interrupts.is_nmi_pending();
        let interrupt = match &guest.avic {
            Some(avic) => avic.deliverable(bus.memory).is_some(),
            None => outranks(interrupts),
        };
        let wakes = nmi && gif && !interrupts.is_nmi_masked() || interrupt && is_open;
        if !wakes {
            self.pending.attention.remove(Attention::VIRTUAL_INTERRUPT | Attention::VIRTUAL_NMI);
        }
        wakes
    }

    /// Whether a virtual interrupt or NMI waits, masked or not.
    pub(crate) fn has_pending_virtual_event(&mut self, bus: &mut Bus<'_>) -> bool {
        let Some(guest) = &self.guest.svm.current else { return false };
        let interrupts = guest.interrupts;
        let nmi = interrupts.virtual_nmi_enabled() && interrupts.is_nmi_pending();
        let counts_all = self.guest.svm.behaviour.idle_hlt_pending == IdleHltPending::Requested;
        let interrupt = match &guest.avic {
            Some(avic) if counts_all => avic.has_request(bus.memory),
            Some(avic) => avic.deliverable(bus.memory).is_some(),
            None => interrupts.is_interrupt_pending() && (counts_all || outranks(interrupts)),
        };
        nmi || interrupt
    }

    fn virtual_gif(&self) -> bool {
        match self.guest.svm.current.as_ref().filter(|guest| guest.interrupts.virtual_gif_enabled())
        {
            Some(guest) => guest.interrupts.virtual_gif(),
            None => self.guest.svm.global_interrupts,
        }
    }

    fn accepts_virtual_interrupts(&self) -> bool {
        self.registers.flags.has(rflags::IF)
            && !self.pending.attention.contains(Attention::SHADOW)
            && self.virtual_gif()
    }

    /// V_NMI. [APM2 "Virtual NMI"]
    fn take_virtual_nmi(&mut self, bus: &mut Bus<'_>) -> Result<bool, Stop> {
        let is_open = self.virtual_gif() && !self.pending.attention.contains(Attention::SHADOW);
        let Some(guest) = self.guest.svm.current.as_mut() else { return Ok(false) };
        let interrupts = &mut guest.interrupts;
        if !interrupts.virtual_nmi_enabled() || !interrupts.is_nmi_pending() {
            self.pending.attention.remove(Attention::VIRTUAL_NMI);
            return Ok(false);
        }
        if !is_open || interrupts.is_nmi_masked() {
            return Ok(false);
        }
        interrupts.set_is_nmi_pending(false);
        interrupts.set_is_nmi_masked(true);
        let event = Event { vector: exception::NMI, error: None, origin: Origin::External };
        self.raise(bus, event)?;
        Ok(true)
    }

    /// With AVIC, V_IRQ and its kin are ignored: the backing page decides.
    fn take_avic_interrupt(&mut self, bus: &mut Bus<'_>) -> Result<(), Stop> {
        let Some(avic) = self.guest.svm.current.as_ref().and_then(|guest| guest.avic) else {
            return Ok(());
        };
        let Some(vector) = avic.deliverable(bus.memory) else {
            self.pending.attention.remove(Attention::VIRTUAL_INTERRUPT);
            return Ok(());
        };
        if !self.accepts_virtual_interrupts() {
            return Ok(());
        }
        avic.accept(bus.memory, vector);
        self.clock.0 += self.guest.svm.costs.avic_deliver.0;
        if let Some(block) = self.svm_block() {
            bus.platform.record(self.visit(), Happening::VirtualAccept { block, vector });
        }
        let result = self.take_virtual_interrupt(bus, vector);
        if avic.behaviour.takes_undelivered_back
            && result.is_err()
            && self.pending.delivering.take_if(|event| event.origin == Origin::External).is_some()
        {
            avic.take_back(bus.memory, vector);
        }
        result
    }

    /// V_IRQ: an exit where VINTR is intercepted, else delivery of V_INTR_VECTOR.
    fn take_v_irq(&mut self, bus: &mut Bus<'_>) -> Result<(), Stop> {
        let is_open = self.accepts_virtual_interrupts();
        let Some(guest) = &self.guest.svm.current else { return Ok(()) };
        let interrupts = guest.interrupts;
        if !outranks(interrupts) {
            self.pending.attention.remove(Attention::VIRTUAL_INTERRUPT);
            return Ok(());
        }
        if !is_open {
            return Ok(());
        }
        self.intercept_physical(Vector3::VINTR, ExitCode::VirtualInterrupt)?;
        if let Some(guest) = self.guest.svm.current.as_mut() {
            guest.interrupts.set_is_interrupt_pending(false);
        }
        self.take_virtual_interrupt(bus, Vector(interrupts.interrupt_vector()))
    }

    /// Enters the handler of an interrupt that the guest's APIC, not the processor's, has asked
    /// for.
    fn take_virtual_interrupt(&mut self, bus: &mut Bus<'_>, vector: Vector) -> Result<(), Stop> {
        if let Some(block) = self.svm_block() {
            let happening = Happening::VirtualInterrupt { block, vector, ip: self.registers.ip };
            bus.platform.record(self.visit(), happening);
        }
        self.raise(bus, Event { vector: vector.0, error: None, origin: Origin::External })
    }

    /// The running guest's VMCB, which names it.
    pub(super) fn svm_block(&self) -> Option<ControlBlock> {
        self.guest.svm.current.as_ref().map(|guest| ControlBlock::Vmcb(guest.vmcb))
    }

    /// An event as EVENTINJ and EXITINTINFO spell it.
    pub(super) fn injection_of(&self, event: Event) -> Injection {
        let event_type = match event.origin {
            Origin::External if event.vector == exception::NMI => EventType::Nmi,
            Origin::External => EventType::Interrupt,
            Origin::Exception => EventType::Exception,
            Origin::Software(SoftwareSource::Int) => EventType::SoftwareInterrupt,
            Origin::Software(_) => EventType::Exception,
        };
        Injection::new()
            .with_vector(event.vector)
            .with_event_type(event_type)
            .with_has_error_code(event.error.is_some())
            .with_error_code(event.error.unwrap_or(0))
            .with_is_valid(true)
    }
}

/// Whether V_IRQ is set and its priority exceeds V_TPR.
fn outranks(interrupts: InterruptControl) -> bool {
    let exceeds = interrupts.interrupt_priority() > interrupts.task_priority();
    interrupts.is_interrupt_pending() && (interrupts.ignores_task_priority() || exceeds)
}

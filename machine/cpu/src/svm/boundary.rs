//! What happens to a guest between two instructions: exits that follow an instruction, injected
//! events, virtual interrupts and NMIs. [APM2 "Event Injection"] [APM2 "Virtual Interrupts"]

use super::IdleHltPending;
use super::avic::DoorbellReception;
use super::ipi;
use crate::costs::Step;
use crate::state::Attention;
use crate::state::{Event, Origin};
use crate::stop::SoftwareSource;
use crate::svm::intercept;
use crate::system::event;
use crate::{Bus, Cpu, Stop};
use arch::control::rflags;
use arch::exception;
use arch::identity::Vector;
use arch::svm::ExitCode;
use arch::svm::event::{EventType, Injection};
use arch::svm::intercept::Vector3;
use arch::svm::vmcb::InterruptControl;
use bus::{ControlBlock, Happening};

/// The error code of #SX for an INIT. [APM2 "#SX"]
const INIT_REDIRECTED: u32 = 1;

impl Cpu {
    /// A doorbell of AVIC reaches this core. [APM2 "AVIC Doorbell"]
    pub fn receive_doorbell(&mut self) {
        let running = self.guest.running.svm().and_then(|guest| guest.avic.as_ref());
        if DoorbellReception::of(running) == DoorbellReception::Evaluate {
            self.pending.raise(Attention::VIRTUAL_INTERRUPT);
        }
    }
}

/// First of all at a boundary: what the last instruction, or VMRUN, left to be done. True while
/// an IPI has steps left, which come before the next instruction.
pub(crate) fn finish_instruction(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Result<bool, Stop> {
    if ipi::go_on(cpu, bus) {
        return Ok(true);
    }
    let Some(guest) = cpu.guest.running.svm_mut() else {
        cpu.pending.clear(Attention::GUEST_BOUNDARY);
        return Ok(false);
    };
    if guest.exit.is_some() {
        return Err(Stop::VM_EXIT);
    }
    cpu.pending.clear(Attention::GUEST_BOUNDARY);
    if let Some(event) = guest.injection.take() {
        inject(cpu, bus, event)?;
    }
    Ok(false)
}

/// EVENTINJ: unconditional, whatever IF, the shadow, TPR or GIF say.
fn inject(cpu: &mut Cpu, bus: &mut Bus<'_>, event: Injection) -> Result<(), Stop> {
    let this = cpu.registers.ip;
    let vector = event.vector();
    let error = event.has_error_code().then_some(event.error_code());
    let next_rip = cpu.guest.running.svm().map_or(0, |guest| guest.injection_next_rip);
    let event = match event.event_type() {
        EventType::Nmi => {
            block_guest_nmis(cpu);
            Event { vector: exception::NMI, error: None, origin: Origin::External }
        }
        EventType::Exception => {
            // INT3 and INTO return behind themselves.
            if matches!(vector, exception::BREAKPOINT | exception::OVERFLOW) && next_rip != 0 {
                cpu.registers.ip = next_rip;
            }
            Event { vector, error, origin: Origin::Exception }
        }
        EventType::SoftwareInterrupt => {
            if next_rip != 0 {
                cpu.registers.ip = next_rip;
            }
            Event { vector, error: None, origin: Origin::Software(SoftwareSource::Int) }
        }
        EventType::Interrupt | EventType::Reserved(_) => {
            Event { vector, error: None, origin: Origin::External }
        }
    };
    cpu.pending.clear(Attention::SHADOW);
    event::raise_injected(cpu, bus, event).inspect_err(|_| cpu.registers.ip = this)
}

/// An NMI enters the guest: no other until its IRET.
fn block_guest_nmis(cpu: &mut Cpu) {
    match cpu.guest.running.svm_mut().filter(|guest| guest.interrupts.virtual_nmi_enabled()) {
        Some(guest) => guest.interrupts.set_is_nmi_masked(true),
        None => cpu.pending.set_blocks_nmis(true),
    }
}

/// IRET ends the blocking of NMIs: V_NMI_MASK under virtual NMI.
pub(crate) fn unblock_nmis(cpu: &mut Cpu) {
    match cpu.guest.running.svm_mut().filter(|guest| guest.interrupts.virtual_nmi_enabled()) {
        Some(guest) => {
            guest.interrupts.set_is_nmi_masked(false);
            cpu.pending.raise(Attention::VIRTUAL_NMI);
        }
        None => cpu.pending.set_blocks_nmis(false),
    }
}

/// In a guest with V_INTR_MASKING the host's IF decides, not the guest's.
/// [APM2 "Virtualizing APIC.TPR"]
pub(crate) fn accepts_interrupts(cpu: &Cpu, own: bool) -> bool {
    let is_open = match cpu.guest.running.svm() {
        Some(guest) if guest.interrupts.masks_interrupts() => guest.host.flags & rflags::IF != 0,
        _ => own,
    };
    cpu.guest.svm.global_interrupts && is_open
}

/// GIF, an intercept, or VM_CR.R_INIT.
pub(crate) fn holds_init(cpu: &Cpu) -> bool {
    let is_intercepted = cpu
        .guest
        .running
        .svm()
        .is_some_and(|guest| guest.intercepts.vector3.contains(Vector3::INIT));
    !cpu.guest.svm.global_interrupts || is_intercepted || cpu.guest.svm.vm_cr.redirects_init()
}

/// VM_CR.R_INIT: #SX. [APM2 "VM_CR MSR (C001_0114h)"]
pub(crate) fn init_becomes(cpu: &Cpu) -> Option<(u8, u32)> {
    let redirects = cpu.guest.svm.vm_cr.redirects_init();
    redirects.then_some((exception::SECURITY, INIT_REDIRECTED))
}

/// An exit in the middle of a software interrupt reports where it returns to.
pub(crate) fn report_next_ip(cpu: &mut Cpu, next: u64) {
    let exit = cpu.guest.running.svm_mut().and_then(|guest| guest.exit.as_mut());
    if let Some(exit) = exit {
        exit.next_rip = next;
    }
}

/// A physical event is about to be taken: the exit for it, if intercepted.
pub(super) fn intercept_physical(cpu: &mut Cpu, code: ExitCode) -> Result<(), Stop> {
    match cpu.guest.running.svm() {
        Some(guest) if guest.intercepts.of(code) => Err(intercept::exit_fault(cpu, code, [0, 0])),
        _ => Ok(()),
    }
}

/// Virtual interrupts and NMIs, after all physical events; one at most.
pub(crate) fn take_virtual_events(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Result<(), Stop> {
    let Some(guest) = cpu.guest.running.svm() else {
        cpu.pending.clear(Attention::VIRTUAL_INTERRUPT | Attention::VIRTUAL_NMI);
        return Ok(());
    };
    let has_avic = guest.avic.is_some();
    if cpu.pending.has(Attention::VIRTUAL_NMI) && take_virtual_nmi(cpu, bus)? {
        return Ok(());
    }
    if !cpu.pending.has(Attention::VIRTUAL_INTERRUPT) {
        return Ok(());
    }
    if has_avic { take_avic_interrupt(cpu, bus) } else { take_v_irq(cpu, bus) }
}

/// Whether a virtual event would end HLT now.
pub(crate) fn has_virtual_event(cpu: &mut Cpu, bus: &mut Bus<'_>) -> bool {
    let is_open = accepts_virtual_interrupts(cpu);
    let gif = virtual_gif(cpu);
    let Some(guest) = cpu.guest.running.svm() else {
        // STI and kin raise the flag whether there is a guest or not.
        cpu.pending.clear(Attention::VIRTUAL_INTERRUPT | Attention::VIRTUAL_NMI);
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
        cpu.pending.clear(Attention::VIRTUAL_INTERRUPT | Attention::VIRTUAL_NMI);
    }
    wakes
}

/// Whether a virtual interrupt or NMI waits, masked or not.
pub(crate) fn has_pending_virtual_event(cpu: &mut Cpu, bus: &mut Bus<'_>) -> bool {
    let Some(guest) = cpu.guest.running.svm() else { return false };
    let interrupts = guest.interrupts;
    let nmi = interrupts.virtual_nmi_enabled() && interrupts.is_nmi_pending();
    let counts_all = cpu.guest.svm.behaviour.idle_hlt_pending == IdleHltPending::Requested;
    let interrupt = match &guest.avic {
        Some(avic) if counts_all => avic.has_request(bus.memory),
        Some(avic) => avic.deliverable(bus.memory).is_some(),
        None => interrupts.is_interrupt_pending() && (counts_all || outranks(interrupts)),
    };
    nmi || interrupt
}

fn virtual_gif(cpu: &Cpu) -> bool {
    match cpu.guest.running.svm().filter(|guest| guest.interrupts.virtual_gif_enabled()) {
        Some(guest) => guest.interrupts.virtual_gif(),
        None => cpu.guest.svm.global_interrupts,
    }
}

fn accepts_virtual_interrupts(cpu: &Cpu) -> bool {
    cpu.registers.flags.has(rflags::IF) && !cpu.pending.has(Attention::SHADOW) && virtual_gif(cpu)
}

/// V_NMI. [APM2 "Virtual NMI"]
fn take_virtual_nmi(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Result<bool, Stop> {
    let is_open = virtual_gif(cpu) && !cpu.pending.has(Attention::SHADOW);
    let Some(guest) = cpu.guest.running.svm_mut() else { return Ok(false) };
    let interrupts = &mut guest.interrupts;
    if !interrupts.virtual_nmi_enabled() || !interrupts.is_nmi_pending() {
        cpu.pending.clear(Attention::VIRTUAL_NMI);
        return Ok(false);
    }
    if !is_open || interrupts.is_nmi_masked() {
        return Ok(false);
    }
    interrupts.set_is_nmi_pending(false);
    interrupts.set_is_nmi_masked(true);
    let event = Event { vector: exception::NMI, error: None, origin: Origin::External };
    event::raise(cpu, bus, event)?;
    Ok(true)
}

/// With AVIC, V_IRQ and its kin are ignored: the backing page decides.
fn take_avic_interrupt(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Result<(), Stop> {
    let Some(avic) = cpu.guest.running.svm().and_then(|guest| guest.avic) else {
        return Ok(());
    };
    let Some(vector) = avic.deliverable(bus.memory) else {
        cpu.pending.clear(Attention::VIRTUAL_INTERRUPT);
        return Ok(());
    };
    if !accepts_virtual_interrupts(cpu) {
        return Ok(());
    }
    avic.accept(bus.memory, vector);
    cpu.clock.take(Step::AvicDeliver);
    if let Some(block) = block(cpu) {
        bus.platform.record(cpu.visit(), Happening::VirtualAccept { block, vector });
    }
    let result = take_virtual_interrupt(cpu, bus, vector);
    if avic.behaviour.takes_undelivered_back
        && result.is_err()
        && cpu.pending.delivering().is_some_and(|event| event.origin == Origin::External)
    {
        cpu.pending.end_delivery();
        avic.take_back(bus.memory, vector);
    }
    result
}

/// V_IRQ: an exit where VINTR is intercepted, else delivery of V_INTR_VECTOR.
fn take_v_irq(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Result<(), Stop> {
    let is_open = accepts_virtual_interrupts(cpu);
    let Some(guest) = cpu.guest.running.svm() else { return Ok(()) };
    let interrupts = guest.interrupts;
    if !outranks(interrupts) {
        cpu.pending.clear(Attention::VIRTUAL_INTERRUPT);
        return Ok(());
    }
    if !is_open {
        return Ok(());
    }
    intercept_physical(cpu, ExitCode::VirtualInterrupt)?;
    if let Some(guest) = cpu.guest.running.svm_mut() {
        guest.interrupts.set_is_interrupt_pending(false);
    }
    take_virtual_interrupt(cpu, bus, Vector(interrupts.interrupt_vector()))
}

/// Enters the handler of an interrupt that the guest's APIC, not the processor's, has asked
/// for.
fn take_virtual_interrupt(cpu: &mut Cpu, bus: &mut Bus<'_>, vector: Vector) -> Result<(), Stop> {
    if let Some(block) = block(cpu) {
        let happening = Happening::VirtualInterrupt { block, vector, ip: cpu.registers.ip };
        bus.platform.record(cpu.visit(), happening);
    }
    event::raise(cpu, bus, Event { vector: vector.0, error: None, origin: Origin::External })
}

/// The running guest's VMCB, which names it.
pub(super) fn block(cpu: &Cpu) -> Option<ControlBlock> {
    cpu.guest.running.svm().map(|guest| ControlBlock::Vmcb(guest.vmcb))
}

/// An event as EVENTINJ and EXITINTINFO spell it.
pub(super) fn injection_of(event: Event) -> Injection {
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

/// Whether V_IRQ is set and its priority exceeds V_TPR.
fn outranks(interrupts: InterruptControl) -> bool {
    let exceeds = interrupts.interrupt_priority() > interrupts.task_priority();
    interrupts.is_interrupt_pending() && (interrupts.ignores_task_priority() || exceeds)
}

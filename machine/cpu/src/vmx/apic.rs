//! APIC virtualization of the running guest: what memory accesses, MSRs, CR8 and interrupts come
//! to. [SDM3 "APIC Virtualization and Virtual Interrupts"]
//!
//! The algebra is [`virtual_apic::apicv`]; here is when the processor asks it.

use super::state::{Exit, Guest};
use super::vmcs::Vmcs;
use crate::costs::Step;
use crate::memory::Access;
use crate::memory::Located;
use crate::system::event;
use crate::system::local_apic;
use crate::system::uintr;
use crate::vmx::intercept;
use crate::{Activity, Attention, Bus, Cpu, CpuModel, Stop};
use arch::address::SystemPhysical;
use arch::apic::Scope;
use arch::control::rflags;
use arch::identity::Vector;
use arch::vmx::ExitReason;
use arch::vmx::apicv::{GuestInterruptStatus, NotificationControl};
use arch::vmx::field::{control, guest};
use arch::vmx::qualification::{ApicAccess, ApicAccessKind};
use bus::{ControlBlock, Effect, Happening};
use interrupt::page::VectorSet;
use virtual_apic::apicv::{
    Apicv, ApicvControls, ApicvExit, Completion, IpiOutcome, IpiSend, IpiStep, MsrRead, MsrWrite,
    PidPointerTable, PostedInterruptProcessing, VirtualApicPage,
};

const X2APIC_MSRS: std::ops::RangeInclusive<u32> = 0x800..=0x8FF;
/// Offset and MSR of the processor's own EOI register.
const EOI: u16 = 0xB0;
const EOI_MSR: u32 = 0x80B;

/// APIC virtualization as an entry finds it; `None` without a control that asks for it.
pub(super) fn load(
    vmcs: &Vmcs<Vec<u8>>,
    controls: &super::check::Controls,
    model: &CpuModel,
) -> Option<Apicv> {
    let wanted =
        ApicvControls::of(controls.pin, controls.primary, controls.secondary, controls.tertiary);
    if !wanted.uses_tpr_shadow && !wanted.virtualizes_accesses {
        return None;
    }
    let address = |field| SystemPhysical(vmcs.get(field));
    let bitmap = [
        control::EOI_EXIT_BITMAP_0,
        control::EOI_EXIT_BITMAP_1,
        control::EOI_EXIT_BITMAP_2,
        control::EOI_EXIT_BITMAP_3,
    ];
    let eoi_exits = std::array::from_fn(|at| (vmcs.get(bitmap[at / 2]) >> (at % 2 * 32)) as u32);
    Some(Apicv {
        controls: wanted,
        page: VirtualApicPage(address(control::VIRTUAL_APIC_ADDRESS)),
        access_page: address(control::APIC_ACCESS_ADDRESS),
        tpr_threshold: vmcs.get(control::TPR_THRESHOLD) as u8,
        eoi_exits: VectorSet(eoi_exits),
        posted_descriptor: address(control::POSTED_INTERRUPT_DESCRIPTOR),
        notification_vector: Vector(vmcs.get(control::POSTED_INTERRUPT_VECTOR) as u8),
        pid_pointers: PidPointerTable {
            base: address(control::PID_POINTER_TABLE),
            last_index: vmcs.get(control::LAST_PID_POINTER_INDEX) as u16,
        },
        physical_address_bits: model.physical_bits(),
        status: GuestInterruptStatus::from_bits(vmcs.get(guest::INTERRUPT_STATUS) as u16),
        is_recognized: false,
        unfinished_write: None,
        behaviour: model.behaviour().vmx.apicv,
    })
}

impl Guest {
    fn leave_after(&mut self, exit: ApicvExit) {
        self.exit = Some(Exit::qualified(exit.reason(), exit.qualification()));
    }
}

fn apicv_mut(cpu: &mut Cpu) -> Option<&mut Apicv> {
    cpu.guest.running.vmx_mut()?.apicv.as_mut()
}

pub(super) fn apicv(cpu: &Cpu) -> Option<&Apicv> {
    cpu.guest.running.vmx()?.apicv.as_ref()
}

/// The last part of loading guest state; an exit waits until the event has been injected.
pub(super) fn apicv_enter(cpu: &mut Cpu, bus: &mut Bus<'_>) {
    let Some(apicv) = apicv_mut(cpu) else { return };
    let exit = apicv.enter(bus.memory);
    if let Some(running) = cpu.guest.running.vmx_mut() {
        running.due_after_injection = exit;
    }
    cpu.pending.raise(Attention::VIRTUAL_INTERRUPT);
}

/// An exit in place of the next instruction, which the access or the MSR caused.
fn apicv_leave(cpu: &mut Cpu, exit: ApicvExit) {
    if let Some(running) = cpu.guest.running.vmx_mut() {
        running.leave_after(exit);
    }
    cpu.pending.raise(Attention::GUEST_BOUNDARY);
}

fn apicv_conclude(cpu: &mut Cpu, bus: &mut Bus<'_>, completion: Completion) {
    cpu.pending.raise(Attention::VIRTUAL_INTERRUPT);
    match completion {
        Completion::Done => {}
        Completion::Exit(exit) => apicv_leave(cpu, exit),
        Completion::Send(ipi) => apicv_send(cpu, bus, ipi),
    }
}

/// IPI virtualization: the processor's own APIC sends the notification.
fn apicv_send(cpu: &mut Cpu, bus: &mut Bus<'_>, mut ipi: IpiSend) {
    let Some(apicv) = apicv(cpu).copied() else { return };
    cpu.clock.take(Step::ApicvSend);
    let Some(block) = block(cpu) else { return };
    let is_x2apic = cpu.apic.is_x2apic();
    let icr = ipi.command().into_bits();
    bus.platform.record(cpu.visit(), Happening::VirtualIpi { block, icr });
    // Bounded: five steps.
    loop {
        match ipi.step(&apicv, bus.memory) {
            IpiStep::Continue => {}
            IpiStep::Notify(notification) => {
                cpu.pending.raise(Attention::YIELD);
                let message = notification.message(is_x2apic);
                let effect = Effect::Interrupt { message, scope: Scope::Destination };
                bus.platform.effect(cpu.visit(), effect);
            }
            IpiStep::Complete(IpiOutcome::Posted) => return,
            IpiStep::Complete(IpiOutcome::Exit(exit)) => return apicv_leave(cpu, exit),
        }
        if let Some((place, vector)) = ipi.requested() {
            bus.platform.record(cpu.visit(), Happening::Posted { place, vector });
        }
    }
}

/// The running guest's VMCS, which names it.
fn block(cpu: &Cpu) -> Option<ControlBlock> {
    cpu.guest.running.vmx().map(|guest| ControlBlock::Vmcs(guest.vmcs))
}

/// The guest ends its interrupt of the highest priority in service, as `status` has it, if that
/// is virtual.
fn record_end_of(cpu: &mut Cpu, bus: &mut Bus<'_>, status: GuestInterruptStatus) {
    let delivers = apicv(cpu).is_some_and(|apicv| apicv.controls.delivers_interrupts);
    let vector = Vector(status.servicing());
    if let Some(block) = block(cpu)
        && delivers
        && vector.0 != 0
    {
        bus.platform.record(cpu.visit(), Happening::VirtualEndOfInterrupt { block, vector });
    }
}

/// APIC-write emulation: the operation that wrote the page is complete.
pub(super) fn apicv_complete_operation(cpu: &mut Cpu, bus: &mut Bus<'_>) {
    let Some(apicv) = apicv(cpu) else { return };
    let (offset, before) = (apicv.unfinished_write, apicv.status);
    if offset.is_none() {
        return;
    }
    if offset == Some(EOI) {
        record_end_of(cpu, bus, before);
    }
    let Some(apicv) = apicv_mut(cpu) else { return };
    let completion = apicv.complete_operation(bus.memory);
    apicv_conclude(cpu, bus, completion);
}

/// Where a translated operand lies: in the APIC-access page, whose fetches exit at once.
pub(super) fn apicv_locate(
    cpu: &mut Cpu,
    at: SystemPhysical,
    access: Access,
) -> Result<Located, Stop> {
    if !apicv(cpu).is_some_and(|apicv| apicv.covers(at)) {
        return Ok(Located::Memory(at));
    }
    let offset = at.page_offset() as u16;
    if access == Access::Execute {
        return Err(apic_access(cpu, ApicAccessKind::LinearFetch, offset));
    }
    Ok(Located::VirtualApic(offset))
}

fn apic_access(cpu: &mut Cpu, kind: ApicAccessKind, offset: u16) -> Stop {
    let access = ApicAccess::new().with_kind(kind).with_offset(offset);
    intercept::exit_with(cpu, Exit::qualified(ExitReason::ApicAccess, access.into_bits()))
}

/// The exit of an access that is not virtualized.
pub(crate) fn check_apic_page(
    cpu: &mut Cpu,
    offset: u16,
    size: usize,
    access: Access,
) -> Result<(), Stop> {
    if cpu.pending.delivering().is_some() {
        return Err(apic_access(cpu, ApicAccessKind::LinearDelivery, offset));
    }
    let is_write = access == Access::Write;
    let kind = if is_write { ApicAccessKind::LinearWrite } else { ApicAccessKind::LinearRead };
    let refusal = apicv(cpu).and_then(|apicv| apicv.refusal(kind, offset, size as u8));
    match refusal {
        None => Ok(()),
        Some(access) => {
            let exit = Exit::qualified(ExitReason::ApicAccess, access.into_bits());
            Err(intercept::exit_with(cpu, exit))
        }
    }
}

pub(crate) fn read_apic_page(cpu: &mut Cpu, bus: &mut Bus<'_>, offset: u16, size: u8) -> u64 {
    cpu.clock.take(Step::ApicvRead);
    // Refused beforehand, so that it cannot be here.
    apicv(cpu)
        .and_then(|apicv| apicv.read_page(bus.memory, offset, size).ok())
        .map_or(!0, u64::from)
}

pub(crate) fn write_apic_page(cpu: &mut Cpu, bus: &mut Bus<'_>, offset: u16, size: u8, value: u64) {
    cpu.clock.take(Step::ApicvWrite);
    if let Some(apicv) = apicv_mut(cpu) {
        let _ = apicv.write_page(bus.memory, offset, size, value as u32);
    }
    // What the write causes comes before the next instruction of the block.
    cpu.pending.note_code_change();
    cpu.pending.raise(Attention::GUEST_BOUNDARY);
}

/// RDMSR of an x2APIC register in virtualize-x2APIC mode; `None` where it is the processor's.
pub(super) fn apicv_read_msr(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    number: u32,
) -> Option<Result<u64, Stop>> {
    if !X2APIC_MSRS.contains(&number) {
        return None;
    }
    match apicv(cpu)?.read_msr(bus.memory, number) {
        MsrRead::Virtualized(value) => {
            cpu.clock.take(Step::ApicvRead);
            Some(Ok(value))
        }
        MsrRead::Ordinary => None,
        MsrRead::GeneralProtection => Some(Err(Stop::GENERAL_PROTECTION)),
    }
}

pub(super) fn apicv_write_msr(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    number: u32,
    value: u64,
) -> Option<Result<(), Stop>> {
    if !X2APIC_MSRS.contains(&number) {
        return None;
    }
    let before = apicv(cpu)?.status;
    match apicv_mut(cpu)?.write_msr(bus.memory, number, value) {
        MsrWrite::Virtualized(completion) => {
            cpu.clock.take(Step::ApicvWrite);
            if number == EOI_MSR {
                record_end_of(cpu, bus, before);
            }
            apicv_conclude(cpu, bus, completion);
            Some(Ok(()))
        }
        MsrWrite::Ordinary => None,
        MsrWrite::GeneralProtection => Some(Err(Stop::GENERAL_PROTECTION)),
    }
}

fn shadowed_apicv(cpu: &mut Cpu) -> Option<&mut Apicv> {
    apicv_mut(cpu).filter(|apicv| apicv.controls.uses_tpr_shadow)
}

/// [SDM3 "Virtualizing CR8-Based TPR Accesses"]
pub(crate) fn read_cr8(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Option<u64> {
    shadowed_apicv(cpu).map(|apicv| apicv.read_cr8(bus.memory).into())
}

/// True if CR8 was virtual.
pub(crate) fn write_cr8(cpu: &mut Cpu, bus: &mut Bus<'_>, value: u64) -> bool {
    let Some(apicv) = shadowed_apicv(cpu) else { return false };
    let completion = Completion::from(apicv.write_cr8(bus.memory, value as u8 & 15));
    apicv_conclude(cpu, bus, completion);
    true
}

/// Whether a virtual interrupt would be delivered now, the shadow aside.
pub(super) fn apicv_has_interrupt(cpu: &Cpu) -> bool {
    cpu.registers.flags.has(rflags::IF) && apicv(cpu).is_some_and(Apicv::has_deliverable)
}

/// Delivers the virtual interrupt that has been recognized.
pub(crate) fn virtual_interrupt(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Result<(), Stop> {
    if !apicv_has_interrupt(cpu) {
        return Ok(());
    }
    let Some(running) = cpu.guest.running.vmx_mut() else { return Ok(()) };
    let block = ControlBlock::Vmcs(running.vmcs);
    let Some(apicv) = running.apicv.as_mut() else { return Ok(()) };
    let vector = apicv.deliver(bus.memory);
    cpu.clock.take(Step::ApicvDeliver);
    bus.platform.record(cpu.visit(), Happening::VirtualAccept { block, vector });
    if uintr::is_notification(cpu, vector.0) {
        bus.platform.record(cpu.visit(), Happening::VirtualEndOfInterrupt { block, vector });
        if let Some(apicv) = apicv_mut(cpu) {
            apicv.end_notification(bus.memory);
        }
        cpu.pending.raise(Attention::VIRTUAL_INTERRUPT);
    } else {
        let happening = Happening::VirtualInterrupt { block, vector, ip: cpu.registers.ip };
        bus.platform.record(cpu.visit(), happening);
    }
    event::raise_interrupt(cpu, bus, vector.0)
}

/// SENDUIPI's notification, if the guest's virtual APIC is to send it. [SDM2 "SENDUIPI"]
pub(super) fn notify(cpu: &mut Cpu, bus: &mut Bus<'_>, receiver: NotificationControl) -> bool {
    let Some(apicv) = apicv(cpu).filter(|apicv| apicv.controls.uses_tpr_shadow) else {
        return false;
    };
    let completion = apicv.user_interrupt(bus.memory, receiver);
    apicv_conclude(cpu, bus, completion);
    true
}

/// Whether the interrupt announces posted requests; they are then in the virtual APIC, and the
/// guest goes on. From HLT it goes back there unless an interrupt is due.
pub(crate) fn posted(cpu: &mut Cpu, bus: &mut Bus<'_>, vector: u8) -> bool {
    let is_notification = apicv(cpu).is_some_and(|apicv| apicv.is_notification(Vector(vector)));
    if !is_notification {
        return false;
    }
    cpu.clock.take(Step::ApicvPosted);
    local_apic::end_interrupt(cpu, bus);
    let Some(block) = block(cpu) else { return true };
    if let Some(apicv) = apicv_mut(cpu) {
        PostedInterruptProcessing::new().run(apicv, bus.memory);
        let (place, vector) = (apicv.posted_descriptor, Vector(apicv.status.requesting()));
        bus.platform.record(cpu.visit(), Happening::PostedTaken { block, place, vector });
    }
    cpu.pending.raise(Attention::VIRTUAL_INTERRUPT | Attention::INTERRUPT);
    let now = cpu.clock.instructions();
    let was_halted = cpu.guest.running.vmx().is_some_and(|guest| guest.halted_at == Some(now));
    if was_halted && !apicv_has_interrupt(cpu) {
        cpu.pending.set_activity(Activity::Halted);
    }
    true
}

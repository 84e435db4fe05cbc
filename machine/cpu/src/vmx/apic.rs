//! APIC virtualization of the running guest: what memory accesses, MSRs, CR8 and interrupts come
//! to. [SDM3 "APIC Virtualization and Virtual Interrupts"]
//!
//! The algebra is [`virtual_apic::apicv`]; here is when the processor asks it.

use super::state::{Exit, Guest};
use super::vmcs::Vmcs;
use crate::memory::Access;
use crate::memory::Located;
use crate::state::{Event, Origin};
use crate::{Activity, Attention, Bus, Cpu, CpuModel, Stop};
use arch::address::SystemPhysical;
use arch::apic::Scope;
use arch::control::rflags;
use arch::identity::Vector;
use arch::vmx::ExitReason;
use arch::vmx::apicv::GuestInterruptStatus;
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

impl Cpu {
    fn apicv_mut(&mut self) -> Option<&mut Apicv> {
        self.guest.vmx.current.as_mut()?.apicv.as_mut()
    }

    pub(super) fn apicv(&self) -> Option<&Apicv> {
        self.guest.vmx.current.as_ref()?.apicv.as_ref()
    }

    /// The last part of loading guest state; an exit waits until the event has been injected.
    pub(super) fn apicv_enter(&mut self, bus: &mut Bus<'_>) {
        let Some(apicv) = self.apicv_mut() else { return };
        let exit = apicv.enter(bus.memory);
        if let Some(running) = self.guest.vmx.current.as_mut() {
            running.due_after_injection = exit;
        }
        self.pending.attention |= Attention::VIRTUAL_INTERRUPT;
    }

    /// An exit in place of the next instruction, which the access or the MSR caused.
    fn apicv_leave(&mut self, exit: ApicvExit) {
        if let Some(running) = self.guest.vmx.current.as_mut() {
            running.leave_after(exit);
        }
        self.pending.attention |= Attention::GUEST_BOUNDARY;
    }

    fn apicv_conclude(&mut self, bus: &mut Bus<'_>, completion: Completion) {
        self.pending.attention |= Attention::VIRTUAL_INTERRUPT;
        match completion {
            Completion::Done => {}
            Completion::Exit(exit) => self.apicv_leave(exit),
            Completion::Send(ipi) => self.apicv_send(bus, ipi),
        }
    }

    /// IPI virtualization: the processor's own APIC sends the notification.
    fn apicv_send(&mut self, bus: &mut Bus<'_>, mut ipi: IpiSend) {
        let Some(apicv) = self.apicv().copied() else { return };
        self.spend(self.guest.vmx.costs.ipi_send);
        let Some(block) = self.vmx_block() else { return };
        let is_x2apic = self.apic.is_x2apic();
        let icr = ipi.command().into_bits();
        bus.platform.record(self.visit(), Happening::VirtualIpi { block, icr });
        // Bounded: five steps.
        loop {
            match ipi.step(&apicv, bus.memory) {
                IpiStep::Continue => {}
                IpiStep::Notify(notification) => {
                    self.pending.attention |= Attention::YIELD;
                    let message = notification.message(is_x2apic);
                    let effect = Effect::Interrupt { message, scope: Scope::Destination };
                    bus.platform.effect(self.visit(), effect);
                }
                IpiStep::Complete(IpiOutcome::Posted) => return,
                IpiStep::Complete(IpiOutcome::Exit(exit)) => return self.apicv_leave(exit),
            }
            if let Some((place, vector)) = ipi.requested() {
                bus.platform.record(self.visit(), Happening::Posted { place, vector });
            }
        }
    }

    /// The running guest's VMCS, which names it.
    fn vmx_block(&self) -> Option<ControlBlock> {
        self.guest.vmx.current.as_ref().map(|guest| ControlBlock::Vmcs(guest.vmcs))
    }

    /// The guest ends its interrupt of the highest priority in service, as `status` has it, if that
    /// is virtual.
    fn record_end_of(&mut self, bus: &mut Bus<'_>, status: GuestInterruptStatus) {
        let delivers = self.apicv().is_some_and(|apicv| apicv.controls.delivers_interrupts);
        let vector = Vector(status.servicing());
        if let Some(block) = self.vmx_block()
            && delivers
            && vector.0 != 0
        {
            bus.platform.record(self.visit(), Happening::VirtualEndOfInterrupt { block, vector });
        }
    }

    /// APIC-write emulation: the operation that wrote the page is complete.
    pub(super) fn apicv_complete_operation(&mut self, bus: &mut Bus<'_>) {
        let Some(apicv) = self.apicv() else { return };
        let (offset, before) = (apicv.unfinished_write, apicv.status);
        if offset.is_none() {
            return;
        }
        if offset == Some(EOI) {
            self.record_end_of(bus, before);
        }
        let Some(apicv) = self.apicv_mut() else { return };
        let completion = apicv.complete_operation(bus.memory);
        self.apicv_conclude(bus, completion);
    }

    /// Where a translated operand lies: in the APIC-access page, whose fetches exit at once.
    pub(super) fn apicv_locate(
        &mut self,
        at: SystemPhysical,
        access: Access,
    ) -> Result<Located, Stop> {
        if !self.apicv().is_some_and(|apicv| apicv.covers(at)) {
            return Ok(Located::Memory(at));
        }
        let offset = at.page_offset() as u16;
        if access == Access::Execute {
            return Err(self.apic_access(ApicAccessKind::LinearFetch, offset));
        }
        Ok(Located::VirtualApic(offset))
    }

    fn apic_access(&mut self, kind: ApicAccessKind, offset: u16) -> Stop {
        let access = ApicAccess::new().with_kind(kind).with_offset(offset);
        self.vmx_exit(Exit::qualified(ExitReason::ApicAccess, access.into_bits()))
    }

    /// The exit of an access that is not virtualized.
    pub(crate) fn vmx_check_apic_page(
        &mut self,
        offset: u16,
        size: usize,
        access: Access,
    ) -> Result<(), Stop> {
        if self.pending.delivering.is_some() {
            return Err(self.apic_access(ApicAccessKind::LinearDelivery, offset));
        }
        let is_write = access == Access::Write;
        let kind = if is_write { ApicAccessKind::LinearWrite } else { ApicAccessKind::LinearRead };
        let refusal = self.apicv().and_then(|apicv| apicv.refusal(kind, offset, size as u8));
        match refusal {
            None => Ok(()),
            Some(access) => {
                let exit = Exit::qualified(ExitReason::ApicAccess, access.into_bits());
                Err(self.vmx_exit(exit))
            }
        }
    }

    pub(crate) fn vmx_read_apic_page(&mut self, bus: &mut Bus<'_>, offset: u16, size: u8) -> u64 {
        self.spend(self.guest.vmx.costs.virtual_read);
        // Refused beforehand, so that it cannot be here.
        self.apicv()
            .and_then(|apicv| apicv.read_page(bus.memory, offset, size).ok())
            .map_or(!0, u64::from)
    }

    pub(crate) fn vmx_write_apic_page(
        &mut self,
        bus: &mut Bus<'_>,
        offset: u16,
        size: u8,
        value: u64,
    ) {
        self.spend(self.guest.vmx.costs.virtual_write);
        if let Some(apicv) = self.apicv_mut() {
            let _ = apicv.write_page(bus.memory, offset, size, value as u32);
        }
        // What the write causes comes before the next instruction of the block.
        self.pending.code_changed = true;
        self.pending.attention |= Attention::GUEST_BOUNDARY;
    }

    /// RDMSR of an x2APIC register in virtualize-x2APIC mode; `None` where it is the processor's.
    pub(super) fn apicv_read_msr(
        &mut self,
        bus: &mut Bus<'_>,
        number: u32,
    ) -> Option<Result<u64, Stop>> {
        if !X2APIC_MSRS.contains(&number) {
            return None;
        }
        match self.apicv()?.read_msr(bus.memory, number) {
            MsrRead::Virtualized(value) => {
                self.spend(self.guest.vmx.costs.virtual_read);
                Some(Ok(value))
            }
            MsrRead::Ordinary => None,
            MsrRead::GeneralProtection => Some(Err(Stop::GENERAL_PROTECTION)),
        }
    }

    pub(super) fn apicv_write_msr(
        &mut self,
        bus: &mut Bus<'_>,
        number: u32,
        value: u64,
    ) -> Option<Result<(), Stop>> {
        if !X2APIC_MSRS.contains(&number) {
            return None;
        }
        let before = self.apicv()?.status;
        match self.apicv_mut()?.write_msr(bus.memory, number, value) {
            MsrWrite::Virtualized(completion) => {
                self.spend(self.guest.vmx.costs.virtual_write);
                if number == EOI_MSR {
                    self.record_end_of(bus, before);
                }
                self.apicv_conclude(bus, completion);
                Some(Ok(()))
            }
            MsrWrite::Ordinary => None,
            MsrWrite::GeneralProtection => Some(Err(Stop::GENERAL_PROTECTION)),
        }
    }

    fn shadowed_apicv(&mut self) -> Option<&mut Apicv> {
        self.apicv_mut().filter(|apicv| apicv.controls.uses_tpr_shadow)
    }

    /// [SDM3 "Virtualizing CR8-Based TPR Accesses"]
    pub(crate) fn vmx_read_cr8(&mut self, bus: &mut Bus<'_>) -> Option<u64> {
        self.shadowed_apicv().map(|apicv| apicv.read_cr8(bus.memory).into())
    }

    /// True if CR8 was virtual.
    pub(crate) fn vmx_write_cr8(&mut self, bus: &mut Bus<'_>, value: u64) -> bool {
        let Some(apicv) = self.shadowed_apicv() else { return false };
        let completion = Completion::from(apicv.write_cr8(bus.memory, value as u8 & 15));
        self.apicv_conclude(bus, completion);
        true
    }

    /// Whether a virtual interrupt would be delivered now, the shadow aside.
    pub(super) fn apicv_has_interrupt(&self) -> bool {
        self.registers.flags.has(rflags::IF) && self.apicv().is_some_and(Apicv::has_deliverable)
    }

    /// Delivers the virtual interrupt that has been recognized.
    pub(crate) fn vmx_virtual_interrupt(&mut self, bus: &mut Bus<'_>) -> Result<(), Stop> {
        if !self.apicv_has_interrupt() {
            return Ok(());
        }
        let Some(running) = self.guest.vmx.current.as_mut() else { return Ok(()) };
        let block = ControlBlock::Vmcs(running.vmcs);
        let Some(apicv) = running.apicv.as_mut() else { return Ok(()) };
        let vector = apicv.deliver(bus.memory);
        self.spend(self.guest.vmx.costs.virtual_deliver);
        bus.platform.record(self.visit(), Happening::VirtualAccept { block, vector });
        let happening = Happening::VirtualInterrupt { block, vector, ip: self.registers.ip };
        bus.platform.record(self.visit(), happening);
        self.raise(bus, Event { vector: vector.0, error: None, origin: Origin::External })
    }

    /// Whether the interrupt announces posted requests; they are then in the virtual APIC, and the
    /// guest goes on. From HLT it goes back there unless an interrupt is due.
    pub(crate) fn vmx_posted(&mut self, bus: &mut Bus<'_>, vector: u8) -> bool {
        let is_notification =
            self.apicv().is_some_and(|apicv| apicv.is_notification(Vector(vector)));
        if !is_notification {
            return false;
        }
        self.spend(self.guest.vmx.costs.posted);
        let mut effects = Vec::new();
        if self.apic.is_x2apic() {
            let _ = self.apic_write_msr(bus, EOI_MSR, 0);
        } else {
            self.apic.write_mmio(EOI, 4, 0, self.clock, &mut effects);
            self.emit(bus, effects);
        }
        let Some(block) = self.vmx_block() else { return true };
        if let Some(apicv) = self.apicv_mut() {
            PostedInterruptProcessing::new().run(apicv, bus.memory);
            let (place, vector) = (apicv.posted_descriptor, Vector(apicv.status.requesting()));
            bus.platform.record(self.visit(), Happening::PostedTaken { block, place, vector });
        }
        self.pending.attention |= Attention::VIRTUAL_INTERRUPT | Attention::INTERRUPT;
        let now = self.instructions;
        let was_halted =
            self.guest.vmx.current.as_ref().is_some_and(|guest| guest.halted_at == Some(now));
        if was_halted && !self.apicv_has_interrupt() {
            self.pending.set_activity(Activity::Halted);
        }
        true
    }
}

//! What VMRUN shall bring: an interrupted event again, an NMI, or an interrupt of the APIC page.
//! [APM2 "Event Injection"] [APM2 "Virtual Interrupts"]
//!
//! With AVIC the processor takes interrupts from the page by itself. Without it, an interrupt that
//! the guest can take now goes by EVENTINJ; for one that it cannot take yet, a virtual interrupt of
//! the same priority is requested, and its intercept tells us when it could have been taken.

use crate::vcpu::{Owned, Vcpu};
use arch::control::rflags;
use arch::svm::intercept::Vector3;
use arch::svm::vmcb::{control, save};
use arch::svm::{EventType, Injection};

/// Makes ready for VMRUN; the global interrupt flag is clear.
pub fn prepare(vcpu: &Vcpu, owned: &mut Owned) {
    let task_priority = vcpu.page.task_priority() >> 4;
    let mut vmcb = owned.vmcb();
    let interrupts = vmcb.get(control::INTERRUPT_CONTROL).with_task_priority(task_priority);
    vmcb.set(control::INTERRUPT_CONTROL, interrupts);
    let interrupted = core::mem::take(&mut owned.interrupted);
    if interrupted.is_valid() {
        owned.vmcb().set(control::EVENTINJ, interrupted);
    } else if vcpu.take_nmi() {
        let nmi = Injection::new().with_event_type(EventType::Nmi).with_is_valid(true);
        owned.vmcb().set(control::EVENTINJ, nmi);
    } else if !owned.is_accelerated {
        inject_interrupt(vcpu, owned);
    }
}

fn inject_interrupt(vcpu: &Vcpu, owned: &mut Owned) {
    let Some(vector) = vcpu.page.requested() else { return request_window(owned, None) };
    let is_open = accepts_interrupts(owned);
    match vcpu.page.deliverable() {
        Some(vector) if is_open => {
            request_window(owned, None);
            vcpu.page.accept(vector);
            let interrupt = Injection::new()
                .with_vector(vector)
                .with_event_type(EventType::Interrupt)
                .with_is_valid(true);
            owned.vmcb().set(control::EVENTINJ, interrupt);
        }
        _ => request_window(owned, Some(vector)),
    }
}

/// Whether the guest would take an interrupt at its next instruction.
fn accepts_interrupts(owned: &mut Owned) -> bool {
    let vmcb = owned.vmcb();
    vmcb.get(save::RFLAGS) & rflags::IF != 0
        && !vmcb.get(control::INTERRUPT_STATE).interrupt_shadow()
        && !vmcb.get(control::EVENTINJ).is_valid()
}

/// Asks for an exit as soon as the guest could take `vector`, or for none.
fn request_window(owned: &mut Owned, vector: Option<u8>) {
    let mut vmcb = owned.vmcb();
    let mut intercepts = vmcb.get(control::INTERCEPTS);
    intercepts.vector3.set(Vector3::VINTR, vector.is_some());
    vmcb.set(control::INTERCEPTS, intercepts);
    let interrupts = vmcb
        .get(control::INTERRUPT_CONTROL)
        .with_is_interrupt_pending(vector.is_some())
        .with_interrupt_priority(vector.unwrap_or(0) >> 4)
        .with_interrupt_vector(0);
    vmcb.set(control::INTERRUPT_CONTROL, interrupts);
}

/// Has VMRUN raise an exception.
pub fn raise(owned: &mut Owned, exception: u8, error_code: Option<u32>) {
    let injection = Injection::new()
        .with_vector(exception)
        .with_event_type(EventType::Exception)
        .with_has_error_code(error_code.is_some())
        .with_error_code(error_code.unwrap_or(0))
        .with_is_valid(true);
    owned.interrupted = injection;
}

/// After an exit: keeps the event that it interrupted, and the priority that the guest set.
pub fn take_back(vcpu: &Vcpu, owned: &mut Owned) {
    let vmcb = owned.vmcb();
    let interrupted = vmcb.get(control::EXITINTINFO);
    let task_priority = vmcb.get(control::INTERRUPT_CONTROL).task_priority();
    owned.interrupted = interrupted;
    // With AVIC the processor has written the page itself.
    if !owned.is_accelerated && task_priority != vcpu.page.task_priority() >> 4 {
        vcpu.page.set_task_priority(task_priority << 4);
    }
}

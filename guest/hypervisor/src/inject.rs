//! What an entry shall bring: an interrupted event again, an NMI, or an interrupt of the APIC page.
//! [APM2 "Event Injection"] [APM2 "Virtual Interrupts"]
//!
//! Where the processor stands in for the APIC it takes interrupts from the page by itself.
//! Elsewhere, one that the guest can take now is injected; for one that it cannot take yet, an exit
//! is asked for as soon as it could.

use crate::vcpu::{Owned, Vcpu};
use crate::vendor::{Control, Event, Vendor};

/// Makes ready to enter the guest; nothing interrupts from here on.
pub fn prepare<V: Vendor>(vcpu: &Vcpu<V>, owned: &mut Owned<V>) {
    owned.control.load_apic(&vcpu.target);
    if owned.control.resume_event() {
    } else if vcpu.take_nmi() {
        owned.control.inject(Event::Nmi);
    } else if !owned.is_accelerated {
        inject_interrupt(vcpu, owned);
    }
}

fn inject_interrupt<V: Vendor>(vcpu: &Vcpu<V>, owned: &mut Owned<V>) {
    let page = &vcpu.target.page;
    let (requested, task_priority) = (page.requested(), page.task_priority());
    match page.deliverable() {
        Some(vector) if owned.control.accepts_interrupts() => {
            owned.control.request_window(None, task_priority);
            page.accept(vector);
            if owned.control.takes_as_notification(vector) {
                // No handler is going to end it.
                page.end_interrupt();
            }
            owned.control.inject(Event::Interrupt(vector));
        }
        _ => owned.control.request_window(requested, task_priority),
    }
}

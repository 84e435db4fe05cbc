//! Sends what an ICR says, in software. [APM2 "Interrupt Command Register"]

use crate::machine;
use crate::svm::avic;
use crate::vcpu::{self, Vcpu};
use arch::apic::{DeliveryMode, DestinationMode, Dfr, Icr, Scope, X2Ldr};
use core::sync::atomic::{Ordering, fence};
use runtime::{apic, processor};

/// Calls `found` for every virtual processor that a command reaches.
pub fn for_each_target(source: &Vcpu, icr: Icr, is_x2apic: bool, mut found: impl FnMut(&Vcpu)) {
    for index in 0..machine::vcpu_count() {
        let target = vcpu::get(index);
        let is_own = index == source.index();
        let is_target = match icr.shorthand() {
            Scope::SelfOnly => is_own,
            Scope::All => true,
            Scope::AllButSelf => !is_own,
            Scope::Destination if is_x2apic => is_x2apic_target(target, icr),
            Scope::Destination => is_xapic_target(target, icr),
        };
        if is_target {
            found(target);
        }
    }
}

fn is_x2apic_target(target: &Vcpu, icr: Icr) -> bool {
    icr.destination() == u32::MAX
        || match icr.destination_mode() {
            DestinationMode::Physical => icr.destination() == target.id(),
            DestinationMode::Logical => X2Ldr::of(target.id()).matches(icr.destination()),
        }
}

fn is_xapic_target(target: &Vcpu, icr: Icr) -> bool {
    let destination = (icr.destination() >> 24) as u8;
    destination == 0xFF
        || match icr.destination_mode() {
            DestinationMode::Physical => u32::from(destination) == target.id(),
            DestinationMode::Logical => Dfr::from_bits(target.page.destination_format())
                .format()
                .matches(target.page.logical_identifier(), destination),
        }
}

/// Sends a command. Level-triggered interrupts and other delivery modes than these go nowhere.
pub fn send(source: &Vcpu, icr: Icr, is_x2apic: bool) {
    let vector = icr.vector();
    let mut is_taken = false;
    for_each_target(source, icr, is_x2apic, |target| match icr.delivery_mode() {
        DeliveryMode::Fixed => deliver(target, vector),
        // One of the targets takes it; which one, nobody promises.
        DeliveryMode::LowestPriority if is_taken => {}
        DeliveryMode::LowestPriority => {
            is_taken = true;
            deliver(target, vector);
        }
        DeliveryMode::Nmi => target.request_nmi(),
        // The de-assertion that old systems need is no second INIT.
        DeliveryMode::Init if icr.is_level() && !icr.is_asserted() => {}
        DeliveryMode::Init => target.request_init(),
        DeliveryMode::Startup => target.request_startup(vector),
        _ => {}
    });
}

/// Requests an interrupt, and sees to it that the target notices.
pub fn deliver(target: &Vcpu, vector: u8) {
    if vector < arch::apic::FIRST_LEGAL_VECTOR {
        return;
    }
    target.page.request(vector);
    // The request is visible before we read whether, and where, the target runs.
    fence(Ordering::SeqCst);
    let own = processor::current().apic_id();
    match avic::running_on(target) {
        Some(host) if host == own => {}
        Some(host) => avic::ring_doorbell(host),
        None => match target.runs_on() {
            // Its next VMRUN looks again.
            Some(host) if host == processor::current().index() => {}
            Some(host) => apic::send(processor::get(host).apic_id(), crate::schedule::KICK_VECTOR),
            None => target.nudge(),
        },
    }
}

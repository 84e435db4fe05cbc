//! Sends what an ICR says, in software. [APM2 "Interrupt Command Register"]

use crate::host;
use crate::machine::Machine;
use crate::vcpu::Vcpu;
use crate::vendor::Vendor;
use arch::apic::{DeliveryMode, DestinationMode, Dfr, Icr, Scope, X2Ldr};
use core::sync::atomic::{Ordering, fence};
use runtime::processor;

/// All vCPUs that a command reaches.
fn targets<'m, V: Vendor>(
    machine: &'m Machine<V>,
    source: &Vcpu<V>,
    icr: Icr,
    is_x2apic: bool,
) -> impl Iterator<Item = &'m Vcpu<V>> {
    let own = source.index();
    machine.vcpus.iter().filter(move |target| match icr.shorthand() {
        Scope::SelfOnly => target.index() == own,
        Scope::All => true,
        Scope::AllButSelf => target.index() != own,
        Scope::Destination if is_x2apic => is_x2apic_target(target, icr),
        Scope::Destination => is_xapic_target(target, icr),
    })
}

fn is_x2apic_target<V: Vendor>(target: &Vcpu<V>, icr: Icr) -> bool {
    icr.destination() == u32::MAX
        || match icr.destination_mode() {
            DestinationMode::Physical => icr.destination() == target.id(),
            DestinationMode::Logical => X2Ldr::of(target.id()).matches(icr.destination()),
        }
}

fn is_xapic_target<V: Vendor>(target: &Vcpu<V>, icr: Icr) -> bool {
    let (destination, page) = ((icr.destination() >> 24) as u8, &target.target.page);
    destination == 0xFF
        || match icr.destination_mode() {
            DestinationMode::Physical => u32::from(destination) == target.id(),
            DestinationMode::Logical => Dfr::from_bits(page.destination_format())
                .format()
                .matches(page.logical_identifier(), destination),
        }
}

/// Sends a command. Level-triggered interrupts and other delivery modes than these go nowhere.
pub fn send<V: Vendor>(machine: &Machine<V>, source: &Vcpu<V>, icr: Icr, is_x2apic: bool) {
    let vector = icr.vector();
    let mut is_taken = false;
    for target in targets(machine, source, icr, is_x2apic) {
        match icr.delivery_mode() {
            DeliveryMode::Fixed => deliver(machine, target, vector),
            // One of the targets takes it; which one, nobody promises.
            DeliveryMode::LowestPriority if is_taken => {}
            DeliveryMode::LowestPriority => {
                is_taken = true;
                deliver(machine, target, vector);
            }
            DeliveryMode::Nmi => target.request_nmi(),
            // The de-assertion that old systems need is not a second INIT.
            DeliveryMode::Init if icr.is_level() && !icr.is_asserted() => {}
            DeliveryMode::Init => target.request_init(),
            DeliveryMode::Startup => target.request_startup(vector),
            _ => {}
        }
    }
}

/// Requests an interrupt, and sees to it that the target notices.
pub fn deliver<V: Vendor>(machine: &Machine<V>, target: &Vcpu<V>, vector: u8) {
    if vector < arch::apic::FIRST_LEGAL_VECTOR {
        return;
    }
    machine.vendor.request(&target.target, vector);
    // The request is visible before we read whether, and where, the target runs.
    fence(Ordering::SeqCst);
    match target.runs_on() {
        // Its next entry looks again.
        Some(host) if host == host::current() => {}
        Some(host) => {
            let id = processor::get(host).apic_id();
            if !machine.vendor.notify(&target.target, id) {
                host::kick(host);
            }
        }
        None => target.nudge(),
    }
}

/// Wakes those targets of a command that the processor did not wake, having made the request.
pub fn wake_targets<V: Vendor>(machine: &Machine<V>, source: &Vcpu<V>, icr: Icr, is_x2apic: bool) {
    for target in targets(machine, source, icr, is_x2apic) {
        if target.index() == source.index() || machine.vendor.is_seen_running(&target.target) {
            continue;
        }
        let host = target.runs_on().map(|host| processor::get(host).apic_id());
        if !host.is_some_and(|host| machine.vendor.remind(host)) {
            target.nudge();
        }
    }
}

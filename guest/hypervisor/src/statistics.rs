//! VM exits by reason: how many, and the cycles from #VMEXIT to the next VMRUN.

use crate::selection::Acceleration;
use arch::svm::ExitCode;
use core::sync::atomic::{AtomicU64, Ordering};
use runtime::print;

/// The reasons that are told apart, with the names that KVM's users know them by.
const REASONS: [(&str, ExitCode); 15] = [
    ("interrupt", ExitCode::Intr),
    ("nmi", ExitCode::Nmi),
    ("vintr", ExitCode::VirtualInterrupt),
    ("cpuid", ExitCode::Cpuid),
    ("hlt", ExitCode::Hlt),
    ("pause", ExitCode::Pause),
    ("io", ExitCode::IoPort),
    ("msr", ExitCode::Msr),
    ("hypercall", ExitCode::Vmmcall),
    ("npf", ExitCode::NestedPageFault),
    ("avic_incomplete_ipi", ExitCode::AvicIncompleteIpi),
    ("avic_unaccelerated_access", ExitCode::AvicNoAcceleration),
    ("shutdown", ExitCode::Shutdown),
    ("invalid", ExitCode::Invalid),
    ("init", ExitCode::Init),
];

struct Counter {
    exits: AtomicU64,
    cycles: AtomicU64,
}

/// One per reason, and one for all others.
static COUNTERS: [Counter; REASONS.len() + 1] =
    [const { Counter { exits: AtomicU64::new(0), cycles: AtomicU64::new(0) } }; REASONS.len() + 1];

pub fn clear() {
    for counter in &COUNTERS {
        counter.exits.store(0, Ordering::Relaxed);
        counter.cycles.store(0, Ordering::Relaxed);
    }
}

pub fn count(code: ExitCode, cycles: u64) {
    let known = REASONS.iter().position(|(_, reason)| *reason == code);
    let counter = &COUNTERS[known.unwrap_or(REASONS.len())];
    counter.exits.fetch_add(1, Ordering::Relaxed);
    counter.cycles.fetch_add(cycles, Ordering::Relaxed);
}

/// A record per reason that occurred, and one for their sum.
pub fn report(acceleration: Acceleration, guest_cycles: u64) {
    let feature = acceleration.name();
    let names = REASONS.iter().map(|(name, _)| *name).chain(["other"]);
    let mut total = 0;
    for (name, counter) in names.zip(&COUNTERS) {
        let exits = counter.exits.load(Ordering::Relaxed);
        let cycles = counter.cycles.load(Ordering::Relaxed);
        total += exits;
        if let Some(mean) = cycles.checked_div(exits) {
            print!(
                "{{\"record\":\"exit\",\"feature\":\"{feature}\",\"reason\":\"{name}\",\
                 \"count\":{exits},\"cycles\":{cycles},\"mean\":{mean}}}"
            );
        }
    }
    print!(
        "{{\"record\":\"exits\",\"feature\":\"{feature}\",\"count\":{total},\
         \"run_cycles\":{guest_cycles}}}"
    );
}

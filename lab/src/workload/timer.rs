//! Timer interrupts.

use super::kind::Workload;

pub(super) struct Timer;

impl Workload for Timer {
    fn name(&self) -> &'static str {
        "timer"
    }

    fn summary(&self) -> &'static str {
        "the APIC's timer interrupts"
    }

    fn benchmark(&self) -> Option<&'static str> {
        Some("tests=timer samples=200")
    }

    fn headline(&self) -> (&'static str, &'static str) {
        ("timer count spinning", "a timer interrupt")
    }
}

//! SVM as a hypervisor uses it. [APM2 "Secure Virtual Machine"]

pub mod avic;
pub mod control;
pub mod entry;
pub mod exit;
pub mod feature;
pub mod nested;
pub mod permission;
pub mod tables;

use crate::memory::Memory;
use crate::selection::Selection;
use crate::vapic::target::Target;
use crate::vendor::{ApicMsr, Vendor};
use arch::apic::Mode;
use arch::svm::avic::msr_access;
use control::Block;
use feature::Features;
pub use tables::Svm;
use tables::Tables;

impl Vendor for Svm {
    type Features = Features;
    type Tables = Tables;
    type Control = Block;
    type Posted = ();

    const ACCELERATION: &'static str = "avic";
    const WITHOUT_ACCELERATION: &'static str = "CPUID Fn8000_000A EDX bit 13 is clear";
    const REASONS: &'static [(&'static str, u64)] = &exit::REASONS;

    fn features() -> Result<Features, &'static str> {
        Features::read()
    }

    fn can_accelerate(features: &Features) -> bool {
        features.avic
    }

    fn prepare(
        features: Features,
        selection: &Selection<'_>,
        is_accelerated: bool,
        memory: Memory,
        tables: &'static Tables,
    ) -> Self {
        tables.avic.clear();
        tables.permissions.build();
        tables.nested.build(memory, is_accelerated);
        Self {
            features,
            is_accelerated,
            hides_running: selection.hides_running,
            last_index: selection.vcpus as u16 - 1,
            tables,
        }
    }

    fn admit(&self, target: &Target<()>) {
        self.tables.avic.set_running(target, None);
    }

    fn enable(&self) {
        entry::enable();
    }

    fn disable(&self) {
        entry::disable();
    }

    fn hold_off_interrupts() {
        entry::hold_off_interrupts();
    }

    fn hold_off_no_more() {
        entry::hold_off_no_more();
    }

    fn accelerates(&self, mode: Mode) -> bool {
        Svm::accelerates(self, mode)
    }

    fn apic_msr(msr: u32) -> Option<ApicMsr> {
        let access = msr_access(msr)?;
        Some(ApicMsr { is_readable: access.is_readable, writable: access.writable })
    }

    fn set_running(&self, target: &Target<()>, host: Option<u32>) {
        // Some parts read this before their request is visible (erratum 1235): there, nobody is
        // ever said to run, and senders exit.
        self.tables.avic.set_running(target, host.filter(|_| !self.hides_running));
    }

    fn is_seen_running(&self, target: &Target<()>) -> bool {
        self.tables.avic.running_on(target).is_some()
    }

    fn request(&self, target: &Target<()>, vector: u8) {
        target.page.request(vector);
    }

    fn notify(&self, target: &Target<()>, _host: u32) -> bool {
        let host = self.tables.avic.running_on(target);
        host.map(avic::ring_doorbell).is_some()
    }

    fn remind(&self, host: u32) -> bool {
        if self.hides_running {
            avic::ring_doorbell(host);
        }
        self.hides_running
    }

    fn update_logical(&self, target: &Target<()>) {
        self.tables.avic.update_logical(target);
    }
}

//! VMX as a hypervisor uses it, with APICv, posted interrupts and IPI virtualization.
//! [SDM3 "Introduction to Virtual Machine Extensions"]
//!
//! For parts with unrestricted guests. Posted interrupts and IPI virtualization are compiled and
//! not yet run; the rest has been, in another emulator.

pub mod apicv;
pub mod control;
pub mod entry;
pub mod ept;
pub mod exit;
pub mod feature;
pub mod permission;
pub mod state;
pub mod tables;
pub mod vmcs;

use crate::host;
use crate::memory::Memory;
use crate::selection::Selection;
use crate::vapic::target::Target;
use crate::vendor::{ApicMsr, Vendor};
use apicv::PostedDescriptor;
use arch::apic::Mode;
use control::Block;
use feature::Features;
use runtime::instruction::{disable_interrupts, enable_interrupts};
use runtime::{apic, processor};
use tables::Tables;
pub use tables::Vmx;

impl Vendor for Vmx {
    type Features = Features;
    type Tables = Tables;
    type Control = Block;
    type Posted = PostedDescriptor;

    const ACCELERATION: &'static str = "apicv";
    const WITHOUT_ACCELERATION: &'static str =
        "APIC-register virtualization or virtual-interrupt delivery is missing";
    const REASONS: &'static [(&'static str, u64)] = &exit::REASONS;

    fn features() -> Result<Features, &'static str> {
        Features::read()
    }

    fn can_accelerate(features: &Features) -> bool {
        features.apicv
    }

    fn prepare(
        features: Features,
        selection: &Selection<'_>,
        is_accelerated: bool,
        memory: Memory,
        tables: &'static Tables,
    ) -> Self {
        let mut features = features;
        features.ipi_virtualization &= !selection.refuses_ipi_virtualization;
        // Nothing exchanges their registers: each vCPU has a processor to itself.
        features.user_interrupts &= selection.vcpus <= processor::count();
        tables.permissions.build(features.ipi_virtualization, features.user_interrupts);
        tables.ept.build(memory, is_accelerated);
        tables.pointers.clear();
        let last_index = selection.vcpus as u16 - 1;
        Self { features, is_accelerated, last_index, tables }
    }

    fn admit(&self, target: &Target<PostedDescriptor>) {
        target.posted.clear();
        self.tables.pointers.set(target.index(), &target.posted);
        self.set_running(target, None);
    }

    fn has_user_interrupts(&self) -> bool {
        self.features.user_interrupts
    }

    fn enable(&self) {
        entry::enable(self.features.revision);
    }

    fn disable(&self) {
        entry::disable();
    }

    fn hold_off_interrupts() {
        disable_interrupts();
    }

    fn hold_off_no_more() {
        enable_interrupts();
    }

    fn accelerates(&self, mode: Mode) -> bool {
        Vmx::accelerates(self, mode)
    }

    fn apic_msr(msr: u32) -> Option<ApicMsr> {
        permission::apic_msr(msr)
    }

    /// One that runs is notified without leaving the guest; the home of one that does not is woken.
    /// [SDM3 "Posted-Interrupt Processing"]
    fn set_running(&self, target: &Target<PostedDescriptor>, host: Option<u32>) {
        let home = processor::get(target.index() % processor::count()).apic_id();
        let (vector, id) = match host {
            Some(id) => (host::NOTIFICATION_VECTOR, id),
            None => (host::WAKE_UP_VECTOR, home),
        };
        // In xAPIC mode the identifier is in bits 15:8 of the field.
        let destination = if processor::current().is_x2apic() { id } else { id << 8 };
        target.posted.notify_by(vector, destination);
    }

    fn is_seen_running(&self, target: &Target<PostedDescriptor>) -> bool {
        target.posted.vector() == host::NOTIFICATION_VECTOR
    }

    /// Posts it: a processor in the guest may be changing the page.
    fn request(&self, target: &Target<PostedDescriptor>, vector: u8) {
        target.posted.post(vector);
    }

    fn deliverable(&self, target: &Target<PostedDescriptor>) -> Option<u8> {
        target.posted.move_into(&target.page);
        target.page.deliverable()
    }

    fn notify(&self, target: &Target<PostedDescriptor>, host: u32) -> bool {
        let stays = self.features.posted_interrupts && self.is_seen_running(target);
        if stays {
            apic::send(host, host::NOTIFICATION_VECTOR);
        }
        stays
    }
}

//! The text of every event, which the kernel formats: a full recording.

use crate::Error;
use tracefs::{Directory, Instance};

/// Events whose text makes a full recording.
const EVENTS: [&str; 16] = [
    "kvm_entry",
    "kvm_exit",
    "kvm_mmio",
    "kvm_pio",
    "kvm_msr",
    "kvm_apicv_inhibit_changed",
    "kvm_avic_incomplete_ipi",
    "kvm_avic_unaccelerated_access",
    "kvm_avic_ga_log",
    "kvm_inj_virq",
    "kvm_apic_ipi",
    "kvm_apic_accept_irq",
    "kvm_apicv_accept_irq",
    "kvm_userspace_exit",
    "kvm_hypercall",
    "kvm_hv_hypercall",
];

/// An instance with those of the events switched on that this kernel has.
pub fn start() -> Result<Instance, Error> {
    let instance = Instance::create(&Directory::find()?)?;
    instance.enable_kvm_events(&EVENTS)?;
    // Threads with their processes, so that virtual machines can be told apart.
    instance.set_option("options/record-tgid", "1")?;
    instance.set_option("buffer_size_kb", "8192")?;
    Ok(instance)
}

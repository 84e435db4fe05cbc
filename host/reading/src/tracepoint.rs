//! KVM's tracepoints that tell of interrupt virtualization.

/// A tracepoint of the subsystem `kvm`, and the field by which its events are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Tracepoint {
    /// As below `events/kvm` of the tracing directory.
    pub name: &'static str,
    /// Field of the event.
    pub key: &'static str,
    /// What one event of it is, in the plural.
    pub counts: &'static str,
}

/// Every machine that loses or regains AVIC or APICv says so here, whatever the vendor.
pub const INHIBIT_CHANGED: Tracepoint =
    Tracepoint { name: "kvm_apicv_inhibit_changed", key: "reason", counts: "changes of inhibits" };
/// An interrupt was handed to AVIC or APICv.
pub const ACCEPTED: Tracepoint = Tracepoint {
    name: "kvm_apicv_accept_irq",
    key: "vec",
    counts: "interrupts handed to the hardware",
};
/// [LINUX "trace.h"]: an IPI that AVIC left to KVM.
pub const INCOMPLETE_IPI: Tracepoint = Tracepoint {
    name: "kvm_avic_incomplete_ipi",
    key: "id",
    counts: "IPIs that AVIC could not complete",
};
/// [LINUX "trace.h"]: an APIC access that AVIC left to KVM.
pub const UNACCELERATED_ACCESS: Tracepoint = Tracepoint {
    name: "kvm_avic_unaccelerated_access",
    key: "offset",
    counts: "APIC accesses that AVIC left to KVM",
};
/// The IOMMU posted an interrupt for a vCPU that was not running.
pub const GUEST_LOG: Tracepoint =
    Tracepoint { name: "kvm_avic_ga_log", key: "vcpuid", counts: "entries of the IOMMU's GA log" };
/// A device's interrupt is posted, or no longer.
pub const POSTING_CHANGED: Tracepoint =
    Tracepoint { name: "kvm_pi_irte_update", key: "host_irq", counts: "changes of what is posted" };

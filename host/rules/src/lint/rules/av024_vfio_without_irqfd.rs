//! Interrupts of passed-through devices take KVM's path.

use crate::configuration::change::MachineChange;
use crate::finding::Severity;
use crate::lint::decision::machine::accelerator_is_open;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;
use crate::vm::Vmm;

pub const RULE: Rule = Rule {
    id: "AV024",
    name: "vfio-without-irqfd",
    severity: Severity::Warning,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "Interrupts of passed-through devices take KVM's path",
    explanation: "
The IOMMU posts a device's interrupts into the guest (AMD: guest virtual APIC mode; Intel: posted interrupts) through the irqfd that
VFIO hands to KVM. `x-no-kvm-msi=on`, `x-no-kvm-msix=on` and `x-no-kvm-intx=on` route them through QEMU instead: an
exit, a system call and a wake-up for each. They exist for debugging.",
    bad: "qemu-system-x86_64 -enable-kvm -M q35,kernel-irqchip=split -device vfio-pci,host=01:00.0,x-no-kvm-msi=on",
    good: "qemu-system-x86_64 -enable-kvm -M q35,kernel-irqchip=split -device vfio-pci,host=01:00.0",
    unknown: "qemu-system-x86_64 -accel $ACCEL -M q35,kernel-irqchip=split \
              -device vfio-pci,host=01:00.0,x-no-kvm-msi=on",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &["QEMU 10.0 hw/vfio/pci.c, x-no-kvm-msi"],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    if vm.vmm != Vmm::Qemu || !vm.may_be_kvm_x86() {
        return;
    }
    for device in &vm.passthrough {
        for property in &device.bypasses {
            if accelerator_is_open(subject, outcome, Some(*property)) {
                return;
            }
            outcome
                .violated(
                    Some(*property),
                    "the device's interrupts go through QEMU and cannot be posted",
                )
                .repaired_by(MachineChange::RemovePair(*property));
        }
    }
}

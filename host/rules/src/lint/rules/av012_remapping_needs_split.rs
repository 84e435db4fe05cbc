//! A vIOMMU that remaps interrupts has a split irqchip.

use crate::configuration::change::MachineChange;
use crate::finding::Severity;
use crate::lint::decision::machine::unknown;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;
use crate::vm::Irqchip;

pub const RULE: Rule = Rule {
    id: "AV012",
    name: "remapping-needs-split",
    severity: Severity::Error,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "A vIOMMU that remaps interrupts has a split irqchip",
    explanation: "
KVM's in-kernel I/O APIC does not pass through QEMU, so QEMU's vIOMMU cannot remap its interrupts. QEMU refuses to start with
`intremap=on` and `kernel-irqchip=on`; libvirt asks for `<ioapic driver='qemu'/>`. A split irqchip also avoids the in-kernel
PIT (AV001).",
    bad: "qemu-system-x86_64 -machine q35,accel=kvm -device intel-iommu,intremap=on",
    good: "qemu-system-x86_64 -machine q35,accel=kvm,kernel-irqchip=split -device intel-iommu,intremap=on",
    unknown: "qemu-system-x86_64 -machine $M,accel=kvm -device intel-iommu,intremap=on",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &["QEMU 10.0 hw/i386/x86-iommu.c, x86_iommu_realize"],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    let Some(viommu) = vm.viommu.as_ref().filter(|_| vm.may_be_kvm_x86()) else { return };
    let remaps = &viommu.value.remaps_interrupts;
    if !remaps.value || !remaps.is_written() {
        return;
    }
    match vm.irqchip.value {
        Irqchip::Kernel => {
            outcome
                .violated(
                    remaps.position(),
                    "interrupt remapping does not work with kernel-irqchip=on",
                )
                .repaired_by(MachineChange::SplitIrqchip);
        }
        Irqchip::Unknown => {
            let what = "whether the irqchip is split";
            outcome.undecided(remaps.position(), unknown(what, &vm.irqchip.origin));
        }
        Irqchip::Split | Irqchip::UserSpace => {}
    }
}

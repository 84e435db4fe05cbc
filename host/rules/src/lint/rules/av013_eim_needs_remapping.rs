//! Extended interrupt mode comes with interrupt remapping.

use crate::configuration::change::MachineChange;
use crate::finding::Severity;
use crate::lint::decision::machine::unknown;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;
use crate::vm::Irqchip;

pub const RULE: Rule = Rule {
    id: "AV013",
    name: "eim-needs-remapping",
    severity: Severity::Error,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "Extended interrupt mode comes with interrupt remapping",
    explanation: "
Extended interrupt mode (`eim=on`) widens the destinations of remapped interrupts; without remapping there is nothing to widen,
and QEMU refuses to start.",
    bad: "qemu-system-x86_64 -M q35,kernel-irqchip=split -accel kvm -device intel-iommu,intremap=off,eim=on",
    good: "qemu-system-x86_64 -M q35,kernel-irqchip=split -accel kvm -device intel-iommu,intremap=on,eim=on",
    unknown: "qemu-system-x86_64 -M q35,kernel-irqchip=$MODE -accel kvm -device intel-iommu,eim=on",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &["QEMU 10.0 hw/i386/intel_iommu.c, vtd_decide_config"],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    let Some(viommu) = vm.viommu.as_ref().filter(|_| vm.may_be_kvm_x86()) else { return };
    let (eim, remaps) = (&viommu.value.eim, &viommu.value.remaps_interrupts);
    if !eim.value || !eim.is_written() {
        return;
    }
    if vm.irqchip.value == Irqchip::Unknown && !remaps.is_written() {
        let what = "whether interrupts are remapped";
        outcome.undecided(eim.position(), unknown(what, &vm.irqchip.origin));
    } else if !remaps.value {
        outcome
            .violated(eim.position(), "eim=on needs intremap=on")
            .repaired_by(MachineChange::Viommu("intremap"));
    }
}

//! The guest has an APIC.

use crate::configuration::change::MachineChange;
use crate::finding::Severity;
use crate::lint::decision::machine::accelerator_is_open;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;

pub const RULE: Rule = Rule {
    id: "AV023",
    name: "apic-hidden",
    severity: Severity::Error,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "The guest has an APIC",
    explanation: "
With `-cpu …,apic=off` the guest takes all interrupts from the 8259. AVIC and APICv accelerate the APIC only, and on AMD each
interrupt of the 8259 asks for a window, which inhibits AVIC (`IRQWIN`) again and again.",
    bad: "qemu-system-x86_64 -enable-kvm -machine q35,kernel-irqchip=split -cpu host,apic=off",
    good: "qemu-system-x86_64 -enable-kvm -machine q35,kernel-irqchip=split -cpu host",
    unknown: "qemu-system-x86_64 -accel $ACCEL -machine q35,kernel-irqchip=split -cpu host,-apic",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &["Linux 6.12 arch/x86/kvm/svm/svm.c, svm_enable_irq_window"],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    if vm.apic.value || !vm.may_be_kvm_x86() {
        return;
    }
    if !accelerator_is_open(subject, outcome, vm.apic.position()) {
        outcome
            .violated(vm.apic.position(), "the guest has no APIC that could be accelerated")
            .repaired_by(MachineChange::CpuFeature("apic", true));
    }
}

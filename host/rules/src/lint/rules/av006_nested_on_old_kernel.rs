//! A kernel before 5.19 offers the guest no SVM.

use crate::configuration::change::MachineChange;
use crate::finding::Severity;
use crate::inhibit::{Duration, Reason};
use crate::lint::decision::machine::accelerator_is_open;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{AMD, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;
use reading::KernelFeature;

pub const RULE: Rule = Rule {
    id: "AV006",
    name: "nested-on-old-kernel",
    severity: Severity::Error,
    vendors: AMD,
    kernels: Kernels::between(KernelFeature::Inhibits, KernelFeature::NestedPerVcpu),
    qemu: Versions::ALL,
    summary: "A kernel before 5.19 offers the guest no SVM",
    explanation: "
Up to Linux 5.18 a guest that sees SVM in CPUID is inhibited for its whole life (`NESTED`), whether it runs nested guests or not. From
5.19 on only a vCPU that is running a nested guest goes without AVIC. `-cpu host` passes SVM on if `kvm_amd`'s parameter `nested`
is on, which it is by default.",
    bad: "qemu-system-x86_64 -enable-kvm -machine q35,kernel-irqchip=split -cpu host,x2apic=off",
    good: "qemu-system-x86_64 -enable-kvm -machine q35,kernel-irqchip=split -cpu host,x2apic=off,svm=off",
    unknown: "qemu-system-x86_64 -accel $ACCEL -machine q35,kernel-irqchip=split -cpu host",
    example_kernel: "5.18",
    example_qemu: "",
    is_fixable: true,
    sources: &["Linux 5.18 arch/x86/kvm/svm/svm.c, svm_vcpu_after_set_cpuid"],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    let Some((_, one)) = subject.inhibits(Reason::Nested).into_iter().next() else { return };
    if one.duration != Duration::WholeLife {
        return;
    }
    if one.is_lasting() {
        outcome
            .violated(one.position, "a guest that is offered SVM has no AVIC on this kernel")
            .repaired_by(MachineChange::CpuFeature("svm", false))
            .inhibiting(Reason::Nested);
    } else if !accelerator_is_open(subject, outcome, one.position) {
        outcome.undecided(one.position, one.because);
    }
}

//! No debugger can block interrupts.

use crate::finding::Severity;
use crate::inhibit::Reason;
use crate::lint::decision::machine::accelerator_is_open;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;
use reading::KernelFeature;

pub const RULE: Rule = Rule {
    id: "AV022",
    name: "debugger",
    severity: Severity::Note,
    vendors: BOTH,
    kernels: Kernels::from(KernelFeature::AbsentInhibits),
    qemu: Versions::ALL,
    summary: "No debugger can block interrupts",
    explanation: "
While GDB single-steps a guest through QEMU's stub, KVM blocks interrupts and inhibits AVIC and APICv (`BLOCKIRQ`). Measure without it.",
    bad: "qemu-system-x86_64 -enable-kvm -machine q35,kernel-irqchip=split -s",
    good: "qemu-system-x86_64 -enable-kvm -machine q35,kernel-irqchip=split",
    unknown: "qemu-system-x86_64 -accel $ACCEL -machine q35,kernel-irqchip=split -s",
    example_kernel: "",
    example_qemu: "",
    is_fixable: false,
    sources: &["Linux 6.12 arch/x86/kvm/x86.c, kvm_arch_vcpu_guestdbg_update_apicv_inhibit"],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    let Some((_, one)) = subject.inhibits(Reason::Blockirq).into_iter().next() else {
        return;
    };
    if !accelerator_is_open(subject, outcome, one.position) {
        outcome
            .violated(one.position, "single steps through the GDB stub inhibit AVIC and APICv")
            .inhibiting(Reason::Blockirq);
    }
}

//! The local APICs are in the kernel.

use crate::configuration::change::MachineChange;
use crate::finding::Severity;
use crate::inhibit::Reason;
use crate::lint::decision::machine::unknown;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;

pub const RULE: Rule = Rule {
    id: "AV002",
    name: "irqchip-off",
    severity: Severity::Error,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "The local APICs are in the kernel",
    explanation: "
With `kernel-irqchip=off` QEMU emulates the local APICs itself. KVM then has no APIC that AVIC or APICv could
accelerate: the inhibit `ABSENT` is never cleared, and every interrupt and every APIC access is a round trip to QEMU.

Use `split` (local APICs in the kernel, I/O APIC and PIC in QEMU) or `on`.",
    bad: "qemu-system-x86_64 -machine q35,accel=kvm,kernel-irqchip=off",
    good: "qemu-system-x86_64 -machine q35,accel=kvm,kernel-irqchip=split",
    unknown: "qemu-system-x86_64 -machine q35,accel=kvm,kernel-irqchip=$MODE",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &[
        "Linux 6.12 arch/x86/kvm/x86.c, kvm_apicv_init",
        "QEMU 10.0 qemu-options.hx, -accel kernel-irqchip",
    ],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    let found: Vec<_> = subject
        .inhibits(Reason::Absent)
        .into_iter()
        .filter(|(_, one)| one.duration.is_lasting())
        .collect();
    let Some((_, first)) = found.first() else { return };
    let at = vm.irqchip.position();
    if first.is_lasting() {
        let message = "the local APICs are emulated by QEMU: neither AVIC nor APICv can act";
        let found = outcome.violated(at, message).inhibiting(Reason::Absent);
        if vm.irqchip.is_written() {
            found.repaired_by(MachineChange::SplitIrqchip);
        }
    } else {
        outcome
            .undecided(at, unknown("where the interrupt controllers are", &vm.irqchip.origin))
            .inhibiting(Reason::Absent);
    }
}

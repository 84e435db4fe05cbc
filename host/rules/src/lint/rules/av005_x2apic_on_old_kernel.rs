//! A kernel that knows no x2AVIC offers no x2APIC.

use crate::configuration::change::MachineChange;
use crate::finding::Severity;
use crate::inhibit::Reason;
use crate::lint::decision::machine::accelerator_is_open;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{AMD, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;
use crate::vm::LARGEST_XAPIC_ID;
use reading::KernelFeature;

pub const RULE: Rule = Rule {
    id: "AV005",
    name: "x2apic-on-old-kernel",
    severity: Severity::Error,
    vendors: AMD,
    kernels: Kernels::between(KernelFeature::X2apicInhibits, KernelFeature::X2avic),
    qemu: Versions::ALL,
    summary: "A kernel that knows no x2AVIC offers no x2APIC",
    explanation: "
AVIC of Linux before 6.0 knows xAPIC mode only. A guest that is offered x2APIC in CPUID is inhibited (`X2APIC`), whether
it uses it or not, and QEMU offers it with every CPU model by default. Switch it off for such a host, unless the guest has more
than 255 vCPUs, or use a newer kernel: from 6.0 on AVIC acts in both modes, with x2AVIC where the CPU has it. Kernels of distributions may carry the newer code
(Oracle's UEK7 does).",
    bad: "qemu-system-x86_64 -enable-kvm -machine q35,kernel-irqchip=split -cpu EPYC",
    good: "qemu-system-x86_64 -enable-kvm -machine q35,kernel-irqchip=split -cpu EPYC,x2apic=off",
    unknown: "qemu-system-x86_64 -accel $ACCEL -machine q35,kernel-irqchip=split -cpu EPYC",
    example_kernel: "5.15",
    example_qemu: "",
    is_fixable: true,
    sources: &[
        "Linux 5.15 arch/x86/kvm/svm/svm.c, svm_vcpu_after_set_cpuid",
        "QEMU 10.0 target/i386/kvm/kvm-cpu.c, kvm_default_props",
    ],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    let Some((_, one)) = subject.inhibits(Reason::X2apic).into_iter().next() else { return };
    let largest = subject.vm.max_apic_id.value;
    if one.is_lasting() && largest > LARGEST_XAPIC_ID {
        let message = format!(
            "x2APIC is offered to the guest, and AVIC of this kernel knows xAPIC only; APIC IDs go up to {largest} and \
             need x2APIC: AVIC is for such a guest from a host kernel 6.0 on"
        );
        outcome.violated(one.position, message).inhibiting(Reason::X2apic);
    } else if one.is_lasting() {
        outcome
            .violated(
                one.position,
                "x2APIC is offered to the guest, and AVIC of this kernel knows xAPIC only",
            )
            .repaired_by(MachineChange::CpuFeature("x2apic", false))
            .inhibiting(Reason::X2apic);
    } else if !accelerator_is_open(subject, outcome, one.position) {
        outcome.undecided(one.position, one.because);
    }
}

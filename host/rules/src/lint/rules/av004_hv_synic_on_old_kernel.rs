//! A kernel before 5.15 runs no guest with hv-synic.

use crate::finding::Severity;
use crate::inhibit::{Certainty, Reason};
use crate::lint::decision::machine::unknown;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;
use reading::KernelFeature;

pub const RULE: Rule = Rule {
    id: "AV004",
    name: "hv-synic-on-old-kernel",
    severity: Severity::Error,
    vendors: BOTH,
    kernels: Kernels::before(KernelFeature::AutoEoiCounted),
    qemu: Versions::ALL,
    summary: "A kernel before 5.15 runs no guest with hv-synic",
    explanation: "
Before Linux 5.15 KVM inhibits AVIC and APICv as soon as the synthetic interrupt controller is enabled, whether the guest
uses AutoEOI or not: `hv-avic` does not help there. Use a newer kernel, or switch `hv-synic` and what needs it (`hv-stimer`,
`hv-ipi` does not) off, which costs a Windows guest its synthetic timers.",
    bad: "qemu-system-x86_64 -enable-kvm -cpu host,-x2apic,svm=off,hv-vpindex,hv-synic,hv-avic",
    good: "qemu-system-x86_64 -enable-kvm -cpu host,-x2apic,svm=off,hv-vpindex,hv-vapic",
    unknown: "qemu-system-x86_64 -accel $ACCEL -cpu host,hv-vpindex,hv-synic",
    example_kernel: "5.14",
    example_qemu: "",
    is_fixable: false,
    sources: &["Linux 5.14 arch/x86/kvm/hyperv.c, kvm_hv_activate_synic"],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    let Some((_, one)) = subject.inhibits(Reason::Hyperv).into_iter().next() else { return };
    if one.certainty >= Certainty::Likely {
        outcome
            .violated(one.position, "this kernel inhibits AVIC and APICv as soon as hv-synic is on")
            .inhibiting(Reason::Hyperv);
    } else {
        let what = "whether KVM runs this machine";
        let message = match subject.vm.is_kvm() {
            true => one.because,
            false => unknown(what, &subject.vm.accelerator.origin),
        };
        outcome.undecided(one.position, message).inhibiting(Reason::Hyperv);
    }
}

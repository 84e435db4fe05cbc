//! Windows sends IPIs through the APIC, which may be accelerated.

use crate::finding::Severity;
use crate::lint::decision::machine::where_kvm;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;

pub const RULE: Rule = Rule {
    id: "AV020",
    name: "hv-ipi",
    severity: Severity::Note,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "Windows sends IPIs through the APIC, which may be accelerated",
    explanation: "
With `hv-ipi` Windows sends IPIs to several vCPUs by hypercall: one exit for all. AVIC and Intel's IPI virtualization send
IPIs without any exit, and cannot act on a hypercall. Where both are on, measure which wins for your guest; where IPIs are not accelerated,
`hv-ipi` is right.",
    bad: "qemu-system-x86_64 -enable-kvm -cpu host,hv-vpindex,hv-vapic,hv-avic,hv-ipi",
    good: "qemu-system-x86_64 -enable-kvm -cpu host,hv-vpindex,hv-vapic,hv-avic",
    unknown: "qemu-system-x86_64 -accel $ACCEL -cpu host,hv-vpindex,hv-avic,hv-ipi",
    example_kernel: "",
    example_qemu: "",
    is_fixable: false,
    sources: &["QEMU 10.0 docs/system/i386/hyperv.rst, hv-ipi", "Linux 6.12 arch/x86/kvm/hyperv.c, kvm_hv_send_ipi"],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    where_kvm(subject, outcome, &subject.vm.hyperv.ipi, |flag, outcome| {
        outcome.violated(
            flag.position(),
            "hv-ipi sends IPIs by hypercall, past AVIC and IPI virtualization",
        );
    });
}

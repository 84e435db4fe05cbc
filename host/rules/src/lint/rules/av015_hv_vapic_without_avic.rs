//! Windows is not told to prefer paravirtual APIC accesses to accelerated ones.

use crate::configuration::change::MachineChange;
use crate::finding::Severity;
use crate::lint::decision::machine::where_kvm;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;

pub const RULE: Rule = Rule {
    id: "AV015",
    name: "hv-vapic-without-avic",
    severity: Severity::Note,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::from(6, 2),
    summary: "Windows is not told to prefer paravirtual APIC accesses to accelerated ones",
    explanation: "
`hv-vapic` offers MSRs for EOI, ICR and TPR and recommends them to Windows. With AVIC or APICv the APIC's own registers
are faster, since they need no exit at all. `hv-avic` takes the recommendation back and leaves the rest of `hv-vapic` as it is.",
    bad: "qemu-system-x86_64 -enable-kvm -cpu host,hv-relaxed,hv-vapic",
    good: "qemu-system-x86_64 -enable-kvm -cpu host,hv-relaxed,hv-vapic,hv-avic",
    unknown: "qemu-system-x86_64 -accel $ACCEL -cpu host,hv-vapic",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &[
        "QEMU 10.0 docs/system/i386/hyperv.rst, hv-vapic and hv-avic",
        "Microsoft Hypervisor Top Level Functional Specification, 4000_0004h EAX bit 3",
    ],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    let hyperv = &subject.vm.hyperv;
    // With the SynIC on AV003 says the same, louder.
    if hyperv.has_avic() || hyperv.has_synic() {
        return;
    }
    where_kvm(subject, outcome, &hyperv.vapic, |flag, outcome| {
        outcome
            .violated(
                flag.position(),
                "hv-vapic makes Windows prefer MSRs to accelerated APIC registers",
            )
            .repaired_by(MachineChange::HyperV("avic", true));
    });
}

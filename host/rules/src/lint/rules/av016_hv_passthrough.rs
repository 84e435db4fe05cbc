//! The set of enlightenments does not depend on the host.

use crate::finding::Severity;
use crate::lint::decision::machine::where_kvm;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;

pub const RULE: Rule = Rule {
    id: "AV016",
    name: "hv-passthrough",
    severity: Severity::Note,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "The set of enlightenments does not depend on the host",
    explanation: "
`hv-passthrough` switches on whatever the host's KVM knows, `hv-synic`, `hv-evmcs` and `hv-avic` among it. Whether interrupts stay
accelerated then depends on the kernel it starts on, and the guest cannot migrate. It is meant for trying out; name the
enlightenments for lasting use.",
    bad: "qemu-system-x86_64 -enable-kvm -cpu host,hv-passthrough",
    good: "qemu-system-x86_64 -enable-kvm -cpu host,hv-vpindex,hv-synic,hv-time,hv-stimer,hv-vapic,hv-avic",
    unknown: "qemu-system-x86_64 -accel $ACCEL -cpu host,hv-passthrough",
    example_kernel: "",
    example_qemu: "",
    is_fixable: false,
    sources: &["QEMU 10.0 docs/system/i386/hyperv.rst, hv-passthrough"],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    where_kvm(subject, outcome, &subject.vm.hyperv.passthrough, |flag, outcome| {
        outcome.violated(
            flag.position(),
            "which enlightenments the guest gets depends on the host's kernel",
        );
    });
}

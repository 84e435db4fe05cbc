//! hv-synic comes with hv-vpindex.

use crate::configuration::change::MachineChange;
use crate::finding::Severity;
use crate::lint::decision::machine::where_kvm;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;

pub const RULE: Rule = Rule {
    id: "AV025",
    name: "hv-synic-needs-vpindex",
    severity: Severity::Error,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::from(2, 12),
    summary: "hv-synic comes with hv-vpindex",
    explanation: "
The synthetic interrupt controller addresses vCPUs by the indexes that `hv-vpindex` provides. QEMU refuses to start with the one and
without the other, and libvirt refuses to define the domain.",
    bad: "qemu-system-x86_64 -enable-kvm -cpu host,hv-synic,hv-avic",
    good: "qemu-system-x86_64 -enable-kvm -cpu host,hv-vpindex,hv-synic,hv-avic",
    unknown: "qemu-system-x86_64 -accel $ACCEL -cpu host,hv-synic",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &["QEMU 10.0 target/i386/kvm/kvm.c, kvm_hyperv_properties"],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    let hyperv = &subject.vm.hyperv;
    let has_vpindex = hyperv.vpindex.as_ref().is_some_and(|flag| flag.value)
        || hyperv.passthrough.as_ref().is_some_and(|flag| flag.value);
    if has_vpindex {
        return;
    }
    where_kvm(subject, outcome, &hyperv.synic, |flag, outcome| {
        outcome
            .violated(flag.position(), "hv-synic needs hv-vpindex")
            .repaired_by(MachineChange::HyperV("vpindex", true));
    });
}

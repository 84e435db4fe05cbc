//! QEMU knows hv-avic.

use crate::finding::Severity;
use crate::lint::decision::machine::where_kvm;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;

pub const RULE: Rule = Rule {
    id: "AV026",
    name: "hv-avic-unknown-to-qemu",
    severity: Severity::Error,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::before(6, 2),
    summary: "QEMU knows hv-avic",
    explanation: "
`hv-avic` came with QEMU 6.2. An older QEMU refuses the unknown CPU property and does not start.",
    bad: "qemu-system-x86_64 -enable-kvm -cpu host,hv-vpindex,hv-synic,hv-avic",
    good: "qemu-system-x86_64 -enable-kvm -cpu host,hv-vpindex,hv-vapic",
    unknown: "qemu-system-x86_64 -accel $ACCEL -cpu host,hv-avic",
    example_kernel: "",
    example_qemu: "6.1",
    is_fixable: false,
    sources: &["QEMU 6.2 target/i386/cpu.c, hv-avic"],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    where_kvm(subject, outcome, &subject.vm.hyperv.avic, |flag, outcome| {
        let version = subject.qemu.map_or_else(String::new, |version| format!(" {version}"));
        outcome.violated(flag.position(), format!("QEMU{version} does not know hv-avic"));
    });
}

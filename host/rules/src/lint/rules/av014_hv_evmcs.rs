//! The enlightened VMCS does not take posted interrupts from a nested Hyper-V.

use crate::configuration::change::MachineChange;
use crate::finding::Severity;
use crate::lint::decision::machine::where_kvm;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{Check, INTEL, Kernels, Rule, Versions};
use crate::lint::subject::Subject;

pub const RULE: Rule = Rule {
    id: "AV014",
    name: "hv-evmcs",
    severity: Severity::Warning,
    vendors: INTEL,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "The enlightened VMCS does not take posted interrupts from a nested Hyper-V",
    explanation: "
`hv-evmcs` gives a Hyper-V that runs inside the guest an enlightened VMCS, which has no fields for posted interrupts and APIC
virtualization: with it, the nested hypervisor has neither. It pays for nested guests that exit much for other reasons, and
costs where interrupts dominate. On AMD it does nothing.",
    bad: "qemu-system-x86_64 -enable-kvm -cpu host,hv-vpindex,hv-vapic,hv-evmcs",
    good: "qemu-system-x86_64 -enable-kvm -cpu host,hv-vpindex,hv-vapic",
    unknown: "qemu-system-x86_64 -accel $ACCEL -cpu host,hv-vpindex,hv-vapic,hv-evmcs",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &["QEMU 10.0 docs/system/i386/hyperv.rst, hv-evmcs"],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    where_kvm(subject, outcome, &subject.vm.hyperv.evmcs, |flag, outcome| {
        outcome
            .violated(
                flag.position(),
                "hv-evmcs takes posted interrupts from a Hyper-V inside the guest",
            )
            .repaired_by(MachineChange::HyperV("evmcs", false));
    });
}

//! KVM runs the machine, and it is an x86 one.

use crate::finding::Severity;
use crate::lint::decision::machine::accelerator_is_open;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;
use crate::vm::{Accelerator, MachineFamily};

pub const RULE: Rule = Rule {
    id: "AV019",
    name: "not-kvm",
    severity: Severity::Note,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "KVM runs the machine, and it is an x86 one",
    explanation: "
A machine of another architecture has interrupt controllers of its own: AVIC, APICv and these rules are about x86. And QEMU without `-enable-kvm` or `-accel kvm` translates the guest's code by itself (TCG): neither AVIC nor APICv has a part in it, and
the other rules have nothing to say. A QEMU whose name ends in `kvm` prefers KVM by itself.",
    bad: "qemu-system-x86_64 -machine q35",
    good: "qemu-system-x86_64 -machine q35,kernel-irqchip=split -enable-kvm",
    unknown: "qemu-system-x86_64 -machine q35,kernel-irqchip=split -accel $ACCEL",
    example_kernel: "",
    example_qemu: "",
    is_fixable: false,
    sources: &["QEMU 10.0 system/vl.c, configure_accelerators"],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    if vm.machine.value.family == MachineFamily::Foreign {
        let message = match vm.machine.value.name.as_str() {
            "none" => "not an x86 machine: these rules say nothing about it".to_owned(),
            name => format!("{name} is not an x86 machine: these rules say nothing about it"),
        };
        outcome.violated(vm.machine.position(), message);
        return;
    }
    if accelerator_is_open(subject, outcome, vm.accelerator.position())
        || vm.accelerator.value == Accelerator::Kvm
    {
        return;
    }
    let name = vm.accelerator.value.name();
    outcome
        .violated(vm.accelerator.position(), format!("the machine runs with {name}, not with KVM"));
}

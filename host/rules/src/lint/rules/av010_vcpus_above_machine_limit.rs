//! The machine type takes this many vCPUs.

use crate::configuration::qemu_machine;
use crate::finding::Severity;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;
use crate::vm::Vmm;

pub const RULE: Rule = Rule {
    id: "AV010",
    name: "vcpus-above-machine-limit",
    severity: Severity::Error,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "The machine type takes this many vCPUs",
    explanation: "
QEMU refuses more vCPUs than the machine type allows: 255 for i440fx, 288 for microvm, and for q35 255 up to version 2.7,
288 up to 8.0, 1024 up to 8.2, 4096 from 9.0 on. The version is that of the machine type, not of QEMU.",
    bad: "qemu-system-x86_64 -machine pc-q35-8.0,accel=kvm,kernel-irqchip=split -smp 300",
    good: "qemu-system-x86_64 -machine pc-q35-8.1,accel=kvm,kernel-irqchip=split -smp 300",
    unknown: "qemu-system-x86_64 -machine pc-q35-rhel9.4.0,accel=kvm,kernel-irqchip=split -smp 300",
    example_kernel: "",
    example_qemu: "",
    is_fixable: false,
    sources: &["QEMU 10.0 hw/i386/pc_q35.c, pc_piix.c, microvm.c, max_cpus"],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    if vm.vmm != Vmm::Qemu || !vm.may_be_kvm_x86() {
        return;
    }
    let count = vm.max_vcpus.value.max(vm.vcpus.value);
    let at = vm.vcpus.position();
    match qemu_machine::vcpu_limit(&vm.machine.value, subject.qemu) {
        Some(limit) if count > limit => {
            let name = &vm.machine.value.name;
            outcome.violated(at, format!("{count} vCPUs, and machine type {name} takes {limit}"));
        }
        None if count > 255 => {
            let name = &vm.machine.value.name;
            outcome.undecided(at, format!("how many vCPUs machine type {name} takes is not known"));
        }
        _ => {}
    }
}

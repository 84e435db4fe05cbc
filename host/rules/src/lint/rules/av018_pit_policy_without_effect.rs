//! A policy for the in-kernel PIT has an in-kernel PIT.

use crate::finding::Severity;
use crate::lint::decision::machine::unknown;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;
use crate::vm::{Irqchip, Pit};

pub const RULE: Rule = Rule {
    id: "AV018",
    name: "pit-policy-without-effect",
    severity: Severity::Note,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "A policy for the in-kernel PIT has an in-kernel PIT",
    explanation: "
With a split irqchip, with `kernel-irqchip=off` or with `pit=off` there is no in-kernel PIT, and `kvm-pit.lost_tick_policy` decides
nothing. QEMU emulates its own PIT, which does not inhibit AVIC. The setting does no harm; it only looks as if it mattered.",
    bad: "qemu-system-x86_64 -enable-kvm -M q35,kernel-irqchip=split -global kvm-pit.lost_tick_policy=delay",
    good: "qemu-system-x86_64 -enable-kvm -M q35,kernel-irqchip=split",
    unknown: "qemu-system-x86_64 -enable-kvm -M $M -global kvm-pit.lost_tick_policy=discard",
    example_kernel: "",
    example_qemu: "",
    is_fixable: false,
    sources: &["QEMU 10.0 include/system/kvm.h, kvm_pit_in_kernel"],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    let Some(at) = vm.pit_policy.filter(|_| vm.may_be_kvm_x86()) else { return };
    if vm.irqchip.value == Irqchip::Unknown {
        let what = "whether there is an in-kernel PIT";
        outcome.undecided(Some(at), unknown(what, &vm.irqchip.origin));
    } else if matches!(vm.pit.value, Pit::Absent | Pit::UserSpace) {
        outcome.violated(Some(at), "there is no in-kernel PIT, so its policy decides nothing");
    }
}

//! kvm-pit's policy is one that it supports.

use crate::configuration::change::MachineChange;
use crate::finding::Severity;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;
use crate::vm::{Origin, Pit};

pub const RULE: Rule = Rule {
    id: "AV017",
    name: "pit-policy-unsupported",
    severity: Severity::Error,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "kvm-pit's policy is one that it supports",
    explanation: "
The in-kernel PIT knows two policies for lost ticks: `delay` (reinject) and `discard`. With `merge` or `slew` QEMU does not start.",
    bad: "qemu-system-x86_64 -enable-kvm -global kvm-pit.lost_tick_policy=slew",
    good: "qemu-system-x86_64 -enable-kvm -global kvm-pit.lost_tick_policy=discard",
    unknown: "qemu-system-x86_64 -enable-kvm -global kvm-pit.lost_tick_policy=$POLICY",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &["QEMU 10.0 hw/i386/kvm/i8254.c, kvm_pit_realizefn"],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    let Origin::Unknown(why) = &vm.pit.origin else { return };
    if vm.pit.value != Pit::Unknown || !why.starts_with("kvm-pit does not support") {
        return;
    }
    if why.contains(['$', '`']) {
        outcome.undecided(None, "the PIT's policy is not known: a variable".to_owned());
    } else {
        outcome.violated(None, why.to_string()).repaired_by(MachineChange::DiscardPitTicks);
    }
}

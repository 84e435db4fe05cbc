//! Every vCPU's identifier fits AVIC's table.

use crate::finding::Severity;
use crate::inhibit::{Certainty, Reason};
use crate::lint::outcome::Outcome;
use crate::lint::rule::{AMD, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;
use crate::vm::Irqchip;
use reading::KernelFeature;

pub const RULE: Rule = Rule {
    id: "AV011",
    name: "vcpus-above-avic-table",
    severity: Severity::Error,
    vendors: AMD,
    kernels: Kernels::from(KernelFeature::Inhibits),
    qemu: Versions::ALL,
    summary: "Every vCPU's identifier fits AVIC's table",
    explanation: "
AVIC finds a vCPU through a table indexed by APIC ID: 255 entries with AVIC, 512 with x2AVIC, 4096 with extended x2AVIC from
Linux 6.19 on. A larger identifier inhibits AVIC for the whole machine from 6.17 on (`PHYSICAL_ID_TOO_BIG`); before, KVM
refused to create the vCPU. Uneven topologies waste identifiers: with 48 cores of 2 threads the second socket
starts at 128. Where only CPUs without x2AVIC are concerned, this is a note.",
    bad: "qemu-system-x86_64 -machine q35,accel=kvm,kernel-irqchip=split -smp 600",
    good: "qemu-system-x86_64 -machine q35,accel=kvm,kernel-irqchip=split -smp 64",
    unknown: "qemu-system-x86_64 -machine q35,accel=kvm,kernel-irqchip=split -smp $COUNT",
    example_kernel: "6.18",
    example_qemu: "",
    is_fixable: false,
    sources: &["Linux 6.18 arch/x86/kvm/svm/avic.c, avic_init_backing_page"],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    if !vm.may_be_kvm_x86() || vm.irqchip.value == Irqchip::UserSpace {
        return;
    }
    let at = vm.vcpus.position();
    let unresolved = vm.unresolved.iter().find(|open| vm.vcpus.position() == Some(open.at));
    if let Some(open) = unresolved {
        outcome.undecided(at, format!("the number of vCPUs is not known: {}", open.what));
        return;
    }
    if let Some((_, one)) = subject.inhibits(Reason::PhysicalIdTooBig).into_iter().next() {
        let found = outcome.violated(at, one.because.clone());
        found.inhibiting(Reason::PhysicalIdTooBig);
        if one.certainty == Certainty::Possible {
            found.as_note();
        }
        return;
    }
    // Before 6.17 KVM refuses the vCPU instead of inhibiting.
    let refuses = subject
        .kernel
        .is_some_and(|kernel| kernel.has(KernelFeature::PhysicalIdInhibits) == Some(false));
    if refuses && vm.max_apic_id.value > 511 {
        let largest = vm.max_apic_id.value;
        outcome.violated(
            at,
            format!("with AVIC on, KVM refuses APIC ID {largest}: its table ends at 511"),
        );
    }
}

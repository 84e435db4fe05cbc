//! A kernel from 6.0 to 6.2 runs no guest that sends logical IPIs in x2APIC mode.

use crate::finding::Severity;
use crate::lint::decision::machine::accelerator_is_open;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{AMD, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;
use crate::vm::{Exposure, Irqchip};
use reading::KernelFeature;

pub const RULE: Rule = Rule {
    id: "AV028",
    name: "x2apic-cluster-wake-ups",
    severity: Severity::Error,
    vendors: AMD,
    kernels: Kernels::between(KernelFeature::X2avic, KernelFeature::ClusterWakeUp),
    qemu: Versions::ALL,
    summary: "A kernel from 6.0 to 6.2 runs no guest that sends logical IPIs in x2APIC mode",
    explanation: "
With x2AVIC, KVM has to wake the target of an IPI that does not run. For a logical destination in x2APIC mode Linux 6.0 to 6.2, 6.1's
stable kernels included, take the wrong half of the destination: nothing is left of a destination in cluster 0, and none of its vCPUs,
0 to 15, is woken. A halted vCPU then misses the interrupt until something else wakes it: stalls, soft lockups, lost network packets.
Other clusters take the slow path, which is right. da3fb46d226a (6.3) repairs it.

Linux guests use logical destinations in x2APIC mode where a virtual IOMMU remaps interrupts to 32-bit destinations (`eim=on`, which
split irqchips have by default, or `xtsup=on`); without one they use physical destinations, which are not affected.

Run 6.3 or later; otherwise start the guest with `x2apic_phys`, or without the virtual IOMMU.",
    bad: "qemu-system-x86_64 -M q35,kernel-irqchip=split -accel kvm -cpu host -smp 4 -device intel-iommu,intremap=on,eim=on",
    good: "qemu-system-x86_64 -M q35,kernel-irqchip=split -accel kvm -cpu host -smp 4",
    unknown: "qemu-system-x86_64 -M q35,kernel-irqchip=split -accel $ACCEL -cpu host -smp 4 -device intel-iommu,intremap=on,eim=on",
    example_kernel: "6.1.170",
    example_qemu: "",
    is_fixable: false,
    sources: &[
        "Linux 6.1.170 arch/x86/kvm/svm/avic.c, avic_kick_target_vcpus_fast",
        "Linux commit da3fb46d226a (6.3)",
        "Linux 6.12 arch/x86/kernel/apic/apic.c, try_to_enable_x2apic",
    ],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    let has_local_apics = vm.irqchip.value != Irqchip::UserSpace && vm.apic.value;
    let is_alone = vm.max_vcpus.value.max(vm.vcpus.value) < 2;
    let Some(viommu) = vm.viommu.as_ref().filter(|_| vm.may_be_kvm_x86()) else { return };
    let reaches_all = viommu.value.eim.value || viommu.value.xtsup.value;
    if !has_local_apics
        || is_alone
        || vm.x2apic.value == Exposure::Hidden
        || !(viommu.value.remaps_interrupts.value && reaches_all)
        || accelerator_is_open(subject, outcome, viommu.position())
    {
        return;
    }
    outcome.violated(
        viommu.position(),
        "with AVIC this kernel does not wake halted vCPUs of 0 to 15 for IPIs in x2APIC cluster mode, which the virtual IOMMU makes Linux use",
    );
}

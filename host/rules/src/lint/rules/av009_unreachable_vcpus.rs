//! Interrupts of devices can reach every vCPU.

use crate::configuration::change::MachineChange;
use crate::finding::Severity;
use crate::lint::decision::machine::unknown;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;
use crate::vm::{Exposure, Irqchip, LARGEST_XAPIC_ID, ViommuKind, Vmm};

pub const RULE: Rule = Rule {
    id: "AV009",
    name: "unreachable-vcpus",
    severity: Severity::Error,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "Interrupts of devices can reach every vCPU",
    explanation: "
An MSI and an I/O APIC entry have eight bits for the destination. vCPUs with APIC IDs of 255 and more are out of their reach
unless the guest has a vIOMMU that remaps interrupts with 32-bit destinations (`intel-iommu,intremap=on,eim=on` or
`amd-iommu,intremap=on,xtsup=on`), or KVM's extended destination IDs (`kvm-msi-ext-dest-id`: QEMU 5.2, Linux 5.11 as the
guest). All of them need `kernel-irqchip=split`; with it QEMU switches the extended IDs on by itself. Without any, Linux
brings up no CPU above APIC ID 254, and QEMU before 5.2 and libvirt refuse to start. All of it needs the guest's x2APIC: a guest that is
offered none (`-x2apic`, `policy='disable'`) has APIC IDs of eight bits.",
    bad: "qemu-system-x86_64 -machine q35,accel=kvm -smp 300 -global kvm-pit.lost_tick_policy=discard",
    good: "qemu-system-x86_64 -machine q35,accel=kvm,kernel-irqchip=split -smp 300",
    unknown: "qemu-system-x86_64 -machine q35,accel=kvm,kernel-irqchip=$MODE -smp 300",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &[
        "QEMU 10.0 target/i386/kvm/kvm-cpu.c, kvm_cpu_instance_init",
        "Linux 6.12 arch/x86/kernel/apic/apic.c, try_to_enable_x2apic",
        "libvirt 11.3 src/qemu/qemu_validate.c",
    ],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    if vm.max_apic_id.value <= LARGEST_XAPIC_ID || vm.vmm != Vmm::Qemu || !vm.may_be_kvm_x86() {
        return;
    }
    let at = vm.vcpus.position();
    if vm.x2apic.value == Exposure::Hidden {
        let largest = vm.max_apic_id.value;
        let message = format!(
            "APIC IDs go up to {largest}, and the guest is offered no x2APIC: it brings up none above 254"
        );
        let change = MachineChange::CpuFeature("x2apic", true);
        outcome.violated(vm.x2apic.position(), message).repaired_by(change);
    }
    let remaps = vm.viommu.as_ref().is_some_and(|viommu| viommu.value.remaps_interrupts.value);
    let is_wide =
        vm.viommu.as_ref().is_some_and(|viommu| viommu.value.eim.value || viommu.value.xtsup.value);
    let largest = vm.max_apic_id.value;
    match vm.irqchip.value {
        Irqchip::Unknown => {
            let what = "whether interrupts reach APIC IDs above 254";
            outcome.undecided(at, unknown(what, &vm.irqchip.origin));
        }
        // What a vIOMMU remaps has its destinations.
        Irqchip::Split if remaps && is_wide || !remaps && vm.msi_ext_dest_id.value => {}
        _ => {
            let why = match remaps && !is_wide {
                true => "the vIOMMU remaps them with destinations of 8 bits",
                false => "neither extended destination IDs nor a vIOMMU with 32-bit destinations",
            };
            let message =
                format!("APIC IDs go up to {largest}, and device interrupts reach 254: {why}");
            let change =
                match (vm.irqchip.value, vm.viommu.as_ref().map(|viommu| viommu.value.kind)) {
                    (Irqchip::Split, Some(ViommuKind::Amd)) => MachineChange::Viommu("xtsup"),
                    (Irqchip::Split, Some(ViommuKind::Intel)) => MachineChange::Viommu("eim"),
                    (Irqchip::Split, _) => MachineChange::CpuFeature("kvm-msi-ext-dest-id", true),
                    _ => MachineChange::SplitIrqchip,
                };
            outcome.violated(at, message).repaired_by(change);
        }
    }
}

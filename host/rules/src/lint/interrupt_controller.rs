//! Rules about the irqchip, the PIT, the guest's IOMMU and the number of vCPUs.

use super::change::Change;
use super::rule::{AMD, BOTH, Check, Kernels, Rule, Versions};
use super::{Outcome, Subject};
use crate::configuration::qemu_machine;
use crate::finding::Severity;
use crate::host::KernelFeature;
use crate::inhibit::{Certainty, Reason};
use crate::vm::{Exposure, Irqchip, Origin, Pit, ViommuKind, Vmm};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "AV001",
        name: "pit-reinject",
        severity: Severity::Error,
        vendors: AMD,
        kernels: Kernels::from(KernelFeature::Inhibits),
        qemu: Versions::ALL,
        summary: "KVM's in-kernel PIT does not reinject missed ticks",
        explanation: "
KVM creates its in-kernel 8254 timer with reinjection of missed ticks switched on. To reinject, KVM has to see when the
guest takes each tick, and with AVIC it does not. So while such a PIT exists, `kvm_amd` sets the inhibit
`PIT_REINJ` and the virtual machine runs without AVIC for its whole life, while `/sys/module/kvm_amd/parameters/avic`
still reads `Y`.

This is what QEMU does by default: the whole irqchip in the kernel, and `kvm-pit.lost_tick_policy=delay`. Only the machine
types microvm and pc-q35-4.0 split the irqchip by themselves. Firecracker and crosvm create the same PIT and never
switch reinjection off. Intel's APICv does not mind.

Let the PIT discard missed ticks (a guest whose clock is kvmclock, the TSC or the HPET does not count them), or split the irqchip, or leave the
PIT out with `-machine pit=off` where the guest needs none.

- QEMU: `-global kvm-pit.lost_tick_policy=discard`
- libvirt: `<timer name='pit' tickpolicy='discard'/>` in `<clock>`
- Proxmox: `args: -global kvm-pit.lost_tick_policy=discard`
- KubeVirt: `clock.timer.pit.tickPolicy: discard`
- crosvm: `--split-irqchip`
- Firecracker: no setting does it",
        bad: "qemu-system-x86_64 -machine q35 -enable-kvm -cpu host -smp 4",
        good: "qemu-system-x86_64 -machine q35 -enable-kvm -cpu host -smp 4 -global kvm-pit.lost_tick_policy=discard",
        unknown: "qemu-system-x86_64 -machine $MACHINE -enable-kvm",
        example_kernel: "",
        example_qemu: "",
        is_fixable: true,
        sources: &[
            "Linux 7.3 arch/x86/kvm/i8254.c, kvm_pit_set_reinject",
            "Linux 7.3 arch/x86/kvm/svm/svm.h, AVIC_REQUIRED_APICV_INHIBITS",
            "QEMU 10.0 hw/i386/kvm/i8254.c, property lost_tick_policy",
        ],
        check: Check::Machine(pit_reinject),
    },
    Rule {
        id: "AV002",
        name: "irqchip-off",
        severity: Severity::Error,
        vendors: BOTH,
        kernels: Kernels::ALL,
        qemu: Versions::ALL,
        summary: "The local APICs are in the kernel",
        explanation: "
With `kernel-irqchip=off` QEMU emulates the local APICs itself. KVM then has no APIC that AVIC or APICv could
accelerate: the inhibit `ABSENT` is never cleared, and every interrupt and every APIC access is a round trip to QEMU.

Use `split` (local APICs in the kernel, I/O APIC and PIC in QEMU) or `on`.",
        bad: "qemu-system-x86_64 -machine q35,accel=kvm,kernel-irqchip=off",
        good: "qemu-system-x86_64 -machine q35,accel=kvm,kernel-irqchip=split",
        unknown: "qemu-system-x86_64 -machine q35,accel=kvm,kernel-irqchip=$MODE",
        example_kernel: "",
        example_qemu: "",
        is_fixable: true,
        sources: &[
            "Linux 6.12 arch/x86/kvm/x86.c, kvm_apicv_init",
            "QEMU 10.0 qemu-options.hx, -accel kernel-irqchip",
        ],
        check: Check::Machine(irqchip_off),
    },
    Rule {
        id: "AV008",
        name: "hv-avic-defeated",
        severity: Severity::Warning,
        vendors: AMD,
        kernels: Kernels::from(KernelFeature::Inhibits),
        qemu: Versions::ALL,
        summary: "Nothing defeats hv-avic",
        explanation: "
`hv-avic` tells Windows not to use AutoEOI, so that AVIC can stay on. It says nothing about the PIT: with an in-kernel
PIT that reinjects, AVIC is off on AMD all the same (AV001), and Windows has given up AutoEOI and the
enlightened EOI for nothing. Configurations that combine `<avic state='on'/>` with `tickpolicy='delay'` are common,
since both are found in guides.",
        bad: "<domain type='kvm'><os><type machine='q35'>hvm</type></os><features><hyperv><vpindex state='on'/>\
              <synic state='on'/><stimer state='on'/><avic state='on'/></hyperv></features>\
              <clock offset='localtime'><timer name='pit' tickpolicy='delay'/></clock></domain>",
        good: "<domain type='kvm'><os><type machine='q35'>hvm</type></os><features><hyperv><vpindex state='on'/>\
               <synic state='on'/><stimer state='on'/><avic state='on'/></hyperv></features>\
               <clock offset='localtime'><timer name='pit' tickpolicy='discard'/></clock></domain>",
        unknown: "qemu-system-x86_64 -enable-kvm -M $M -cpu host,hv-vpindex,hv-synic,hv-stimer,hv-avic",
        example_kernel: "",
        example_qemu: "",
        is_fixable: true,
        sources: &[
            "QEMU 10.0 docs/system/i386/hyperv.rst, hv-avic",
            "Linux 7.3 arch/x86/kvm/i8254.c, kvm_pit_set_reinject",
        ],
        check: Check::Machine(hv_avic_defeated),
    },
    Rule {
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
        check: Check::Machine(unreachable_vcpus),
    },
    Rule {
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
        check: Check::Machine(vcpus_above_machine_limit),
    },
    Rule {
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
        check: Check::Machine(vcpus_above_avic_table),
    },
    Rule {
        id: "AV012",
        name: "remapping-needs-split",
        severity: Severity::Error,
        vendors: BOTH,
        kernels: Kernels::ALL,
        qemu: Versions::ALL,
        summary: "A vIOMMU that remaps interrupts has a split irqchip",
        explanation: "
KVM's in-kernel I/O APIC does not pass through QEMU, so QEMU's vIOMMU cannot remap its interrupts. QEMU refuses to start with
`intremap=on` and `kernel-irqchip=on`; libvirt asks for `<ioapic driver='qemu'/>`. A split irqchip also avoids the in-kernel
PIT (AV001).",
        bad: "qemu-system-x86_64 -machine q35,accel=kvm -device intel-iommu,intremap=on",
        good: "qemu-system-x86_64 -machine q35,accel=kvm,kernel-irqchip=split -device intel-iommu,intremap=on",
        unknown: "qemu-system-x86_64 -machine $M,accel=kvm -device intel-iommu,intremap=on",
        example_kernel: "",
        example_qemu: "",
        is_fixable: true,
        sources: &["QEMU 10.0 hw/i386/x86-iommu.c, x86_iommu_realize"],
        check: Check::Machine(remapping_needs_split),
    },
    Rule {
        id: "AV013",
        name: "eim-needs-remapping",
        severity: Severity::Error,
        vendors: BOTH,
        kernels: Kernels::ALL,
        qemu: Versions::ALL,
        summary: "Extended interrupt mode comes with interrupt remapping",
        explanation: "
Extended interrupt mode (`eim=on`) widens the destinations of remapped interrupts; without remapping there is nothing to widen,
and QEMU refuses to start.",
        bad: "qemu-system-x86_64 -M q35,kernel-irqchip=split -accel kvm -device intel-iommu,intremap=off,eim=on",
        good: "qemu-system-x86_64 -M q35,kernel-irqchip=split -accel kvm -device intel-iommu,intremap=on,eim=on",
        unknown: "qemu-system-x86_64 -M q35,kernel-irqchip=$MODE -accel kvm -device intel-iommu,eim=on",
        example_kernel: "",
        example_qemu: "",
        is_fixable: true,
        sources: &["QEMU 10.0 hw/i386/intel_iommu.c, vtd_decide_config"],
        check: Check::Machine(eim_needs_remapping),
    },
    Rule {
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
        check: Check::Machine(pit_policy_unsupported),
    },
    Rule {
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
        check: Check::Machine(pit_policy_without_effect),
    },
    Rule {
        id: "AV027",
        name: "ext-dest-id-needs-split",
        severity: Severity::Warning,
        vendors: BOTH,
        kernels: Kernels::ALL,
        qemu: Versions::from(5, 2),
        summary: "Extended destination IDs come with a split irqchip",
        explanation: "
`kvm-msi-ext-dest-id` lets MSIs carry 15-bit destinations. KVM's in-kernel I/O APIC cannot use them, so QEMU offers the feature with a
split irqchip only: elsewhere the flag does nothing, and with `-cpu …,enforce` QEMU does not start.",
        bad: "qemu-system-x86_64 -M q35 -accel kvm -cpu host,kvm-msi-ext-dest-id=on",
        good: "qemu-system-x86_64 -M q35,kernel-irqchip=split -accel kvm -cpu host,kvm-msi-ext-dest-id=on",
        unknown: "qemu-system-x86_64 -M $M -accel kvm -cpu host,kvm-msi-ext-dest-id=on",
        example_kernel: "",
        example_qemu: "",
        is_fixable: true,
        sources: &["QEMU 10.0 target/i386/kvm/kvm.c, kvm_arch_get_supported_cpuid"],
        check: Check::Machine(ext_dest_id_needs_split),
    },
];

fn pit_reinject(subject: &Subject<'_>, outcome: &mut Outcome) {
    // AVIC never runs an encrypted guest: another PIT would gain nothing.
    if subject.inhibits(Reason::Sev).iter().any(|(_, one)| one.is_lasting()) {
        return;
    }
    for (_, one) in subject.inhibits(Reason::PitReinject) {
        if !one.duration.is_lasting() {
            continue;
        }
        let pit = &subject.vm.pit;
        if one.is_lasting() {
            let message = match (&pit.origin, subject.vm.vmm) {
                (Origin::Default(_), Vmm::Qemu) => {
                    "the in-kernel PIT reinjects missed ticks by default: AVIC stays off for the VM's whole life"
                        .to_owned()
                }
                (Origin::Default(_), vmm) => format!(
                    "{} creates an in-kernel PIT that reinjects missed ticks: AVIC stays off for the VM's whole \
                     life",
                    vmm.name()
                ),
                _ => "the in-kernel PIT is told to reinject missed ticks: AVIC stays off for the VM's whole life"
                    .to_owned(),
            };
            outcome
                .violated(pit.position(), message)
                .mended_by(Change::DiscardPitTicks)
                .inhibiting(Reason::PitReinject);
        } else {
            outcome
                .undecided(
                    pit.position(),
                    unknown("where the PIT is and what it does", &pit.origin),
                )
                .inhibiting(Reason::PitReinject);
        }
        return;
    }
}

/// "…: why", for undecided rules.
pub(super) fn unknown(what: &str, origin: &Origin) -> String {
    match origin {
        Origin::Unknown(why) => format!("{what} is not known: {why}"),
        _ => format!("{what} is not known: the accelerator is not"),
    }
}

fn irqchip_off(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    let found: Vec<_> = subject
        .inhibits(Reason::Absent)
        .into_iter()
        .filter(|(_, one)| one.duration.is_lasting())
        .collect();
    let Some((_, first)) = found.first() else { return };
    let at = vm.irqchip.position();
    if first.is_lasting() {
        let message = "the local APICs are emulated by QEMU: neither AVIC nor APICv can act";
        let found = outcome.violated(at, message).inhibiting(Reason::Absent);
        if vm.irqchip.is_written() {
            found.mended_by(Change::SplitIrqchip);
        }
    } else {
        outcome
            .undecided(at, unknown("where the interrupt controllers are", &vm.irqchip.origin))
            .inhibiting(Reason::Absent);
    }
}

fn hv_avic_defeated(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    let Some(avic) = vm.hyperv.avic.as_ref().filter(|avic| avic.value) else { return };
    if !vm.hyperv.has_synic() {
        return;
    }
    for (_, one) in subject.inhibits(Reason::PitReinject) {
        if one.is_lasting() {
            outcome
                .violated(
                    avic.position(),
                    "hv-avic has no effect on AMD: the PIT's reinjection keeps AVIC off",
                )
                .mended_by(Change::DiscardPitTicks);
        } else if one.duration.is_lasting() {
            outcome.undecided(avic.position(), unknown("what the PIT does", &vm.pit.origin));
        }
    }
}

fn unreachable_vcpus(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    if vm.max_apic_id.value < 255 || vm.vmm != Vmm::Qemu || !vm.may_be_kvm_x86() {
        return;
    }
    let at = vm.vcpus.position();
    if vm.x2apic.value == Exposure::Hidden {
        let largest = vm.max_apic_id.value;
        let message = format!(
            "APIC IDs go up to {largest}, and the guest is offered no x2APIC: it brings up none above 254"
        );
        let change = Change::CpuFeature("x2apic", true);
        outcome.violated(vm.x2apic.position(), message).mended_by(change);
    }
    let remaps = vm.viommu.as_ref().is_some_and(|viommu| {
        let viommu = &viommu.value;
        viommu.remaps_interrupts.value && (viommu.eim.value || viommu.xtsup.value)
    });
    let largest = vm.max_apic_id.value;
    match vm.irqchip.value {
        Irqchip::Unknown => {
            let what = "whether interrupts reach APIC IDs above 254";
            outcome.undecided(at, unknown(what, &vm.irqchip.origin));
        }
        Irqchip::Split if remaps || vm.msi_ext_dest_id.value => {}
        _ => {
            let message = format!(
                "APIC IDs go up to {largest}, and device interrupts reach 254: neither extended destination IDs nor a \
                 vIOMMU with 32-bit destinations"
            );
            let change =
                match (vm.irqchip.value, vm.viommu.as_ref().map(|viommu| viommu.value.kind)) {
                    (Irqchip::Split, Some(ViommuKind::Amd)) => Change::Viommu("xtsup"),
                    (Irqchip::Split, Some(ViommuKind::Intel)) => Change::Viommu("eim"),
                    (Irqchip::Split, _) => Change::CpuFeature("kvm-msi-ext-dest-id", true),
                    _ => Change::SplitIrqchip,
                };
            outcome.violated(at, message).mended_by(change);
        }
    }
}

fn vcpus_above_machine_limit(subject: &Subject<'_>, outcome: &mut Outcome) {
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

fn vcpus_above_avic_table(subject: &Subject<'_>, outcome: &mut Outcome) {
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

fn remapping_needs_split(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    let Some(viommu) = vm.viommu.as_ref().filter(|_| vm.may_be_kvm_x86()) else { return };
    let remaps = &viommu.value.remaps_interrupts;
    if !remaps.value || !remaps.is_written() {
        return;
    }
    match vm.irqchip.value {
        Irqchip::Kernel => {
            outcome
                .violated(
                    remaps.position(),
                    "interrupt remapping does not work with kernel-irqchip=on",
                )
                .mended_by(Change::SplitIrqchip);
        }
        Irqchip::Unknown => {
            let what = "whether the irqchip is split";
            outcome.undecided(remaps.position(), unknown(what, &vm.irqchip.origin));
        }
        Irqchip::Split | Irqchip::UserSpace => {}
    }
}

fn eim_needs_remapping(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    let Some(viommu) = vm.viommu.as_ref().filter(|_| vm.may_be_kvm_x86()) else { return };
    let (eim, remaps) = (&viommu.value.eim, &viommu.value.remaps_interrupts);
    if !eim.value || !eim.is_written() {
        return;
    }
    if vm.irqchip.value == Irqchip::Unknown && !remaps.is_written() {
        let what = "whether interrupts are remapped";
        outcome.undecided(eim.position(), unknown(what, &vm.irqchip.origin));
    } else if !remaps.value {
        outcome
            .violated(eim.position(), "eim=on needs intremap=on")
            .mended_by(Change::Viommu("intremap"));
    }
}

fn pit_policy_unsupported(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    let Origin::Unknown(why) = &vm.pit.origin else { return };
    if vm.pit.value != Pit::Unknown || !why.starts_with("kvm-pit does not support") {
        return;
    }
    if why.contains(['$', '`']) {
        outcome.undecided(None, "the PIT's policy is not known: a variable".to_owned());
    } else {
        outcome.violated(None, why.to_string()).mended_by(Change::DiscardPitTicks);
    }
}

fn pit_policy_without_effect(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    let Some(at) = vm.pit_policy.filter(|_| vm.may_be_kvm_x86()) else { return };
    if vm.irqchip.value == Irqchip::Unknown {
        let what = "whether there is an in-kernel PIT";
        outcome.undecided(Some(at), unknown(what, &vm.irqchip.origin));
    } else if matches!(vm.pit.value, Pit::Absent | Pit::UserSpace) {
        outcome.violated(Some(at), "there is no in-kernel PIT, so its policy decides nothing");
    }
}

fn ext_dest_id_needs_split(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    let ext = &vm.msi_ext_dest_id;
    if !ext.value || !ext.is_written() || !vm.may_be_kvm_x86() {
        return;
    }
    match vm.irqchip.value {
        Irqchip::Split => {}
        Irqchip::Unknown => {
            let what = "whether the irqchip is split";
            outcome.undecided(ext.position(), unknown(what, &vm.irqchip.origin));
        }
        Irqchip::Kernel | Irqchip::UserSpace => {
            outcome
                .violated(
                    ext.position(),
                    "kvm-msi-ext-dest-id does nothing without a split irqchip",
                )
                .mended_by(Change::SplitIrqchip);
        }
    }
}

//! Rules about the rest of a virtual machine: CPU features, encryption, devices, debuggers.

use super::change::Change;
use super::interrupt_controller::unknown;
use super::rule::{AMD, BOTH, Check, Kernels, Rule, Versions};
use super::{Outcome, Subject};
use crate::finding::Severity;
use crate::host::KernelFeature;
use crate::inhibit::{Duration, Reason};
use crate::vm::{Accelerator, Exposure, Irqchip, MachineFamily, Vmm};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "AV005",
        name: "x2apic-on-old-kernel",
        severity: Severity::Error,
        vendors: AMD,
        kernels: Kernels::between(KernelFeature::X2apicInhibits, KernelFeature::X2avic),
        qemu: Versions::ALL,
        summary: "A kernel that knows no x2AVIC offers no x2APIC",
        explanation: "
AVIC of Linux before 6.0 knows xAPIC mode only. A guest that is offered x2APIC in CPUID is inhibited (`X2APIC`), whether
it uses it or not, and QEMU offers it with every CPU model by default. Switch it off for such a host, or use a newer
kernel: from 6.0 on AVIC acts in both modes, with x2AVIC where the CPU has it. Kernels of distributions may carry the newer code
(Oracle's UEK7 does).",
        bad: "qemu-system-x86_64 -enable-kvm -machine q35,kernel-irqchip=split -cpu EPYC",
        good: "qemu-system-x86_64 -enable-kvm -machine q35,kernel-irqchip=split -cpu EPYC,x2apic=off",
        unknown: "qemu-system-x86_64 -accel $ACCEL -machine q35,kernel-irqchip=split -cpu EPYC",
        example_kernel: "5.15",
        example_qemu: "",
        is_fixable: true,
        sources: &[
            "Linux 5.15 arch/x86/kvm/svm/svm.c, svm_vcpu_after_set_cpuid",
            "QEMU 10.0 target/i386/kvm/kvm-cpu.c, kvm_default_props",
        ],
        check: Check::Machine(x2apic),
    },
    Rule {
        id: "AV006",
        name: "nested-on-old-kernel",
        severity: Severity::Error,
        vendors: AMD,
        kernels: Kernels::between(KernelFeature::Inhibits, KernelFeature::NestedPerVcpu),
        qemu: Versions::ALL,
        summary: "A kernel before 5.19 offers the guest no SVM",
        explanation: "
Up to Linux 5.18 a guest that sees SVM in CPUID is inhibited for its whole life (`NESTED`), whether it runs nested guests or not. From
5.19 on only a vCPU that is running a nested guest goes without AVIC. `-cpu host` passes SVM on if `kvm_amd`'s parameter `nested`
is on, which it is by default.",
        bad: "qemu-system-x86_64 -enable-kvm -machine q35,kernel-irqchip=split -cpu host,x2apic=off",
        good: "qemu-system-x86_64 -enable-kvm -machine q35,kernel-irqchip=split -cpu host,x2apic=off,svm=off",
        unknown: "qemu-system-x86_64 -accel $ACCEL -machine q35,kernel-irqchip=split -cpu host",
        example_kernel: "5.18",
        example_qemu: "",
        is_fixable: true,
        sources: &["Linux 5.18 arch/x86/kvm/svm/svm.c, svm_vcpu_after_set_cpuid"],
        check: Check::Machine(nested),
    },
    Rule {
        id: "AV007",
        name: "sev",
        severity: Severity::Warning,
        vendors: AMD,
        kernels: Kernels::from(KernelFeature::SevInhibits),
        qemu: Versions::ALL,
        summary: "The guest's memory is not encrypted with SEV",
        explanation: "
AVIC's backing page is memory that KVM and the hardware share; for an encrypted guest KVM inhibits AVIC (`SEV`). There is no
setting around it: encryption or AVIC. (Secure AVIC of newer CPUs is another feature, and needs a guest that knows it.)
Silence this rule where encryption is wanted.",
        bad: "qemu-system-x86_64 -enable-kvm -M q35,kernel-irqchip=split,confidential-guest-support=s \
              -object sev-guest,id=s,cbitpos=51,reduced-phys-bits=1",
        good: "qemu-system-x86_64 -enable-kvm -M q35,kernel-irqchip=split",
        unknown: "qemu-system-x86_64 -accel $ACCEL -M q35,kernel-irqchip=split,confidential-guest-support=s \
                  -object sev-guest,id=s,cbitpos=51,reduced-phys-bits=1",
        example_kernel: "",
        example_qemu: "",
        is_fixable: false,
        sources: &["Linux 6.1 arch/x86/kvm/svm/sev.c, sev_guest_init"],
        check: Check::Machine(sev),
    },
    Rule {
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
        check: Check::Machine(not_kvm),
    },
    Rule {
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
Other clusters take the slow path, which is right. da3fb46d226a (6.3) mends it.

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
        check: Check::Machine(x2apic_cluster_wake_ups),
    },
    Rule {
        id: "AV022",
        name: "debugger",
        severity: Severity::Note,
        vendors: BOTH,
        kernels: Kernels::from(KernelFeature::AbsentInhibits),
        qemu: Versions::ALL,
        summary: "No debugger can block interrupts",
        explanation: "
While GDB single-steps a guest through QEMU's stub, KVM blocks interrupts and inhibits AVIC and APICv (`BLOCKIRQ`). Measure without it.",
        bad: "qemu-system-x86_64 -enable-kvm -machine q35,kernel-irqchip=split -s",
        good: "qemu-system-x86_64 -enable-kvm -machine q35,kernel-irqchip=split",
        unknown: "qemu-system-x86_64 -accel $ACCEL -machine q35,kernel-irqchip=split -s",
        example_kernel: "",
        example_qemu: "",
        is_fixable: false,
        sources: &["Linux 6.12 arch/x86/kvm/x86.c, kvm_arch_vcpu_guestdbg_update_apicv_inhibit"],
        check: Check::Machine(debugger),
    },
    Rule {
        id: "AV023",
        name: "apic-hidden",
        severity: Severity::Error,
        vendors: BOTH,
        kernels: Kernels::ALL,
        qemu: Versions::ALL,
        summary: "The guest has an APIC",
        explanation: "
With `-cpu …,apic=off` the guest takes all interrupts from the 8259. AVIC and APICv accelerate the APIC only, and on AMD each
interrupt of the 8259 asks for a window, which inhibits AVIC (`IRQWIN`) again and again.",
        bad: "qemu-system-x86_64 -enable-kvm -machine q35,kernel-irqchip=split -cpu host,apic=off",
        good: "qemu-system-x86_64 -enable-kvm -machine q35,kernel-irqchip=split -cpu host",
        unknown: "qemu-system-x86_64 -accel $ACCEL -machine q35,kernel-irqchip=split -cpu host,-apic",
        example_kernel: "",
        example_qemu: "",
        is_fixable: true,
        sources: &["Linux 6.12 arch/x86/kvm/svm/svm.c, svm_enable_irq_window"],
        check: Check::Machine(apic_hidden),
    },
    Rule {
        id: "AV024",
        name: "vfio-without-irqfd",
        severity: Severity::Warning,
        vendors: BOTH,
        kernels: Kernels::ALL,
        qemu: Versions::ALL,
        summary: "Interrupts of passed-through devices take KVM's path",
        explanation: "
The IOMMU posts a device's interrupts into the guest (AMD: guest virtual APIC mode; Intel: posted interrupts) through the irqfd that
VFIO hands to KVM. `x-no-kvm-msi=on`, `x-no-kvm-msix=on` and `x-no-kvm-intx=on` route them through QEMU instead: an
exit, a system call and a wake-up for each. They exist for debugging.",
        bad: "qemu-system-x86_64 -enable-kvm -M q35,kernel-irqchip=split -device vfio-pci,host=01:00.0,x-no-kvm-msi=on",
        good: "qemu-system-x86_64 -enable-kvm -M q35,kernel-irqchip=split -device vfio-pci,host=01:00.0",
        unknown: "qemu-system-x86_64 -accel $ACCEL -M q35,kernel-irqchip=split \
                  -device vfio-pci,host=01:00.0,x-no-kvm-msi=on",
        example_kernel: "",
        example_qemu: "",
        is_fixable: true,
        sources: &["QEMU 10.0 hw/vfio/pci.c, x-no-kvm-msi"],
        check: Check::Machine(vfio_without_irqfd),
    },
];

/// Says that the accelerator decides and is not known; true if so.
fn accelerator_is_open(
    subject: &Subject<'_>,
    outcome: &mut Outcome,
    at: Option<crate::Position>,
) -> bool {
    let open = subject.vm.accelerator.value == Accelerator::Unknown;
    if open {
        let what = "whether KVM runs this machine";
        outcome.undecided(at, unknown(what, &subject.vm.accelerator.origin));
    }
    open
}

fn x2apic(subject: &Subject<'_>, outcome: &mut Outcome) {
    let Some((_, one)) = subject.inhibits(Reason::X2apic).into_iter().next() else { return };
    if one.is_lasting() {
        outcome
            .violated(
                one.position,
                "x2APIC is offered to the guest, and AVIC of this kernel knows xAPIC only",
            )
            .mended_by(Change::CpuFeature("x2apic", false))
            .inhibiting(Reason::X2apic);
    } else if !accelerator_is_open(subject, outcome, one.position) {
        outcome.undecided(one.position, one.because);
    }
}

fn nested(subject: &Subject<'_>, outcome: &mut Outcome) {
    let Some((_, one)) = subject.inhibits(Reason::Nested).into_iter().next() else { return };
    if one.duration != Duration::WholeLife {
        return;
    }
    if one.is_lasting() {
        outcome
            .violated(one.position, "a guest that is offered SVM has no AVIC on this kernel")
            .mended_by(Change::CpuFeature("svm", false))
            .inhibiting(Reason::Nested);
    } else if !accelerator_is_open(subject, outcome, one.position) {
        outcome.undecided(one.position, one.because);
    }
}

fn sev(subject: &Subject<'_>, outcome: &mut Outcome) {
    let Some((_, one)) = subject.inhibits(Reason::Sev).into_iter().next() else { return };
    if one.is_lasting() {
        outcome.violated(one.position, "an encrypted guest has no AVIC").inhibiting(Reason::Sev);
    } else {
        accelerator_is_open(subject, outcome, one.position);
    }
}

fn not_kvm(subject: &Subject<'_>, outcome: &mut Outcome) {
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

fn x2apic_cluster_wake_ups(subject: &Subject<'_>, outcome: &mut Outcome) {
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

fn debugger(subject: &Subject<'_>, outcome: &mut Outcome) {
    let Some((_, one)) = subject.inhibits(Reason::Blockirq).into_iter().next() else {
        return;
    };
    if !accelerator_is_open(subject, outcome, one.position) {
        outcome
            .violated(one.position, "single steps through the GDB stub inhibit AVIC and APICv")
            .inhibiting(Reason::Blockirq);
    }
}

fn apic_hidden(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    if vm.apic.value || !vm.may_be_kvm_x86() {
        return;
    }
    if !accelerator_is_open(subject, outcome, vm.apic.position()) {
        outcome
            .violated(vm.apic.position(), "the guest has no APIC that could be accelerated")
            .mended_by(Change::CpuFeature("apic", true));
    }
}

fn vfio_without_irqfd(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    if vm.vmm != Vmm::Qemu || !vm.may_be_kvm_x86() {
        return;
    }
    for device in &vm.passthrough {
        for property in &device.bypasses {
            if accelerator_is_open(subject, outcome, Some(*property)) {
                return;
            }
            outcome
                .violated(
                    Some(*property),
                    "the device's interrupts go through QEMU and cannot be posted",
                )
                .mended_by(Change::RemovePair(*property));
        }
    }
}

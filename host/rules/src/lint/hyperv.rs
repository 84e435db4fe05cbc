//! Rules about Hyper-V enlightenments, which decide interrupts of Windows guests.

use super::change::Change;
use super::interrupt_controller::unknown;
use super::rule::{BOTH, Check, INTEL, Kernels, Rule, Versions};
use super::{Outcome, Subject};
use crate::finding::Severity;
use crate::host::KernelFeature;
use crate::inhibit::{Certainty, Reason};
use crate::vm::{Accelerator, Guest, Setting, Vmm};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "AV003",
        name: "hv-synic-without-avic",
        severity: Severity::Error,
        vendors: BOTH,
        kernels: Kernels::from(KernelFeature::AutoEoiCounted),
        qemu: Versions::ALL,
        summary: "Hyper-V's synthetic interrupts leave AVIC and APICv on",
        explanation: "
With `hv-synic` (and `hv-stimer`, which needs it) Windows programs synthetic interrupts with AutoEOI: the hypervisor ends them by
itself. Hardware that delivers interrupts without the hypervisor cannot do that, so KVM sets the inhibit `HYPERV` once
the guest uses AutoEOI, on AMD and Intel alike. The exits of a Windows guest more than double.

`hv-avic` (QEMU 6.2; also spelled `hv-apicv`) sets the recommendation not to use AutoEOI, and Windows follows it. libvirt has
`<avic state='on'/>` from 8.10 on; Proxmox and KubeVirt have no setting of their own yet.
cloud-hypervisor's `kvm_hyperv=on` offers the same interrupts, from v53 on with that recommendation.

Linux guests are not concerned as long as KVM's own signature is visible to them: they prefer KVM's interface.
Whether a guest without `hv-stimer` uses AutoEOI depends on the guest.",
        bad: "qemu-system-x86_64 -enable-kvm -M q35,kernel-irqchip=split -cpu host,hv-vpindex,hv-synic,hv-time,hv-stimer",
        good: "qemu-system-x86_64 -enable-kvm -M q35,kernel-irqchip=split \
               -cpu host,hv-vpindex,hv-synic,hv-time,hv-stimer,hv-avic",
        unknown: "qemu-system-x86_64 -enable-kvm -M q35,kernel-irqchip=split -cpu host,hv-vpindex,hv-synic",
        example_kernel: "",
        example_qemu: "",
        is_fixable: true,
        sources: &[
            "Linux 5.15 arch/x86/kvm/hyperv.c, synic_update_vector",
            "QEMU 6.2 docs/system/i386/hyperv.rst, hv-avic",
        ],
        check: Check::Machine(synic_without_avic),
    },
    Rule {
        id: "AV004",
        name: "hv-synic-on-old-kernel",
        severity: Severity::Error,
        vendors: BOTH,
        kernels: Kernels::before(KernelFeature::AutoEoiCounted),
        qemu: Versions::ALL,
        summary: "A kernel before 5.15 runs no guest with hv-synic",
        explanation: "
Before Linux 5.15 KVM inhibits AVIC and APICv as soon as the synthetic interrupt controller is enabled, whether the guest
uses AutoEOI or not: `hv-avic` does not help there. Use a newer kernel, or switch `hv-synic` and what needs it (`hv-stimer`,
`hv-ipi` does not) off, which costs a Windows guest its synthetic timers.",
        bad: "qemu-system-x86_64 -enable-kvm -cpu host,-x2apic,svm=off,hv-vpindex,hv-synic,hv-avic",
        good: "qemu-system-x86_64 -enable-kvm -cpu host,-x2apic,svm=off,hv-vpindex,hv-vapic",
        unknown: "qemu-system-x86_64 -accel $ACCEL -cpu host,hv-vpindex,hv-synic",
        example_kernel: "5.14",
        example_qemu: "",
        is_fixable: false,
        sources: &["Linux 5.14 arch/x86/kvm/hyperv.c, kvm_hv_activate_synic"],
        check: Check::Machine(synic_on_old_kernel),
    },
    Rule {
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
        check: Check::Machine(evmcs),
    },
    Rule {
        id: "AV015",
        name: "hv-vapic-without-avic",
        severity: Severity::Note,
        vendors: BOTH,
        kernels: Kernels::ALL,
        qemu: Versions::from(6, 2),
        summary: "Windows is not told to prefer paravirtual APIC accesses to accelerated ones",
        explanation: "
`hv-vapic` offers MSRs for EOI, ICR and TPR and recommends them to Windows. With AVIC or APICv the APIC's own registers
are faster, since they need no exit at all. `hv-avic` takes the recommendation back and leaves the rest of `hv-vapic` as it is.",
        bad: "qemu-system-x86_64 -enable-kvm -cpu host,hv-relaxed,hv-vapic",
        good: "qemu-system-x86_64 -enable-kvm -cpu host,hv-relaxed,hv-vapic,hv-avic",
        unknown: "qemu-system-x86_64 -accel $ACCEL -cpu host,hv-vapic",
        example_kernel: "",
        example_qemu: "",
        is_fixable: true,
        sources: &[
            "QEMU 10.0 docs/system/i386/hyperv.rst, hv-vapic and hv-avic",
            "Microsoft Hypervisor Top Level Functional Specification, 4000_0004h EAX bit 3",
        ],
        check: Check::Machine(vapic_without_avic),
    },
    Rule {
        id: "AV016",
        name: "hv-passthrough",
        severity: Severity::Note,
        vendors: BOTH,
        kernels: Kernels::ALL,
        qemu: Versions::ALL,
        summary: "The set of enlightenments does not depend on the host",
        explanation: "
`hv-passthrough` switches on whatever the host's KVM knows, `hv-synic`, `hv-evmcs` and `hv-avic` among it. Whether interrupts stay
accelerated then depends on the kernel it starts on, and the guest cannot migrate. It is meant for trying out; name the
enlightenments for lasting use.",
        bad: "qemu-system-x86_64 -enable-kvm -cpu host,hv-passthrough",
        good: "qemu-system-x86_64 -enable-kvm -cpu host,hv-vpindex,hv-synic,hv-time,hv-stimer,hv-vapic,hv-avic",
        unknown: "qemu-system-x86_64 -accel $ACCEL -cpu host,hv-passthrough",
        example_kernel: "",
        example_qemu: "",
        is_fixable: false,
        sources: &["QEMU 10.0 docs/system/i386/hyperv.rst, hv-passthrough"],
        check: Check::Machine(passthrough),
    },
    Rule {
        id: "AV020",
        name: "hv-ipi",
        severity: Severity::Note,
        vendors: BOTH,
        kernels: Kernels::ALL,
        qemu: Versions::ALL,
        summary: "Windows sends IPIs through the APIC, which may be accelerated",
        explanation: "
With `hv-ipi` Windows sends IPIs to several vCPUs by hypercall: one exit for all. AVIC and Intel's IPI virtualization send
IPIs without any exit, and cannot act on a hypercall. Where both are on, measure which wins for your guest; where IPIs are not accelerated,
`hv-ipi` is right.",
        bad: "qemu-system-x86_64 -enable-kvm -cpu host,hv-vpindex,hv-vapic,hv-avic,hv-ipi",
        good: "qemu-system-x86_64 -enable-kvm -cpu host,hv-vpindex,hv-vapic,hv-avic",
        unknown: "qemu-system-x86_64 -accel $ACCEL -cpu host,hv-vpindex,hv-avic,hv-ipi",
        example_kernel: "",
        example_qemu: "",
        is_fixable: false,
        sources: &["QEMU 10.0 docs/system/i386/hyperv.rst, hv-ipi", "Linux 6.12 arch/x86/kvm/hyperv.c, kvm_hv_send_ipi"],
        check: Check::Machine(ipi),
    },
    Rule {
        id: "AV021",
        name: "windows-without-stimer",
        severity: Severity::Note,
        vendors: BOTH,
        kernels: Kernels::ALL,
        qemu: Versions::ALL,
        summary: "Windows has a timer that needs no emulated device",
        explanation: "
Without `hv-stimer` Windows ticks by the HPET or the RTC, whose every access is an exit to QEMU: tens of thousands a second have been
measured. Give it synthetic timers (`hv-synic`, `hv-time` and `hv-stimer`, with `hv-avic` so that AVIC and APICv stay on) and take
the HPET away.",
        bad: "qemu-system-x86_64 -enable-kvm -cpu host,hv-relaxed,hv-time -rtc base=localtime",
        good: "qemu-system-x86_64 -enable-kvm -rtc base=localtime -cpu host,hv-time,hv-vpindex,hv-synic,hv-stimer,hv-avic",
        unknown: "qemu-system-x86_64 -accel $ACCEL -cpu host,hv-relaxed,hv-time -rtc base=localtime",
        example_kernel: "",
        example_qemu: "",
        is_fixable: false,
        sources: &["QEMU 10.0 docs/system/i386/hyperv.rst, hv-stimer"],
        check: Check::Machine(without_stimer),
    },
    Rule {
        id: "AV025",
        name: "hv-synic-needs-vpindex",
        severity: Severity::Error,
        vendors: BOTH,
        kernels: Kernels::ALL,
        qemu: Versions::from(2, 12),
        summary: "hv-synic comes with hv-vpindex",
        explanation: "
The synthetic interrupt controller addresses vCPUs by the indexes that `hv-vpindex` provides. QEMU refuses to start with the one and
without the other, and libvirt refuses to define the domain.",
        bad: "qemu-system-x86_64 -enable-kvm -cpu host,hv-synic,hv-avic",
        good: "qemu-system-x86_64 -enable-kvm -cpu host,hv-vpindex,hv-synic,hv-avic",
        unknown: "qemu-system-x86_64 -accel $ACCEL -cpu host,hv-synic",
        example_kernel: "",
        example_qemu: "",
        is_fixable: true,
        sources: &["QEMU 10.0 target/i386/kvm/kvm.c, kvm_hyperv_properties"],
        check: Check::Machine(synic_needs_vpindex),
    },
    Rule {
        id: "AV026",
        name: "hv-avic-unknown-to-qemu",
        severity: Severity::Error,
        vendors: BOTH,
        kernels: Kernels::ALL,
        qemu: Versions::before(6, 2),
        summary: "QEMU knows hv-avic",
        explanation: "
`hv-avic` came with QEMU 6.2. An older QEMU refuses the unknown CPU property and does not start.",
        bad: "qemu-system-x86_64 -enable-kvm -cpu host,hv-vpindex,hv-synic,hv-avic",
        good: "qemu-system-x86_64 -enable-kvm -cpu host,hv-vpindex,hv-vapic",
        unknown: "qemu-system-x86_64 -accel $ACCEL -cpu host,hv-avic",
        example_kernel: "",
        example_qemu: "6.1",
        is_fixable: false,
        sources: &["QEMU 6.2 target/i386/cpu.c, hv-avic"],
        check: Check::Machine(avic_unknown_to_qemu),
    },
];

/// Runs `violated` where KVM runs the machine, and says so where that is not known.
fn where_kvm(
    subject: &Subject<'_>,
    outcome: &mut Outcome,
    flag: &Option<Setting<bool>>,
    violated: impl FnOnce(&Setting<bool>, &mut Outcome),
) {
    let Some(flag) = flag.as_ref().filter(|flag| flag.value) else { return };
    if !subject.vm.may_be_kvm_x86() {
        return;
    }
    if subject.vm.accelerator.value == Accelerator::Unknown {
        let what = "whether KVM runs this machine";
        outcome.undecided(flag.position(), unknown(what, &subject.vm.accelerator.origin));
    } else {
        violated(flag, outcome);
    }
}

fn synic_without_avic(subject: &Subject<'_>, outcome: &mut Outcome) {
    let Some((_, one)) = subject.inhibits(Reason::Hyperv).into_iter().next() else { return };
    if one.certainty >= Certainty::Likely {
        let message = match subject.vm.vmm {
            Vmm::CloudHypervisor => {
                "cloud-hypervisor before v53 lets Windows use AutoEOI: AVIC and APICv are off once it is up"
            }
            _ => {
                "Windows uses AutoEOI with hv-synic: AVIC and APICv are off once it is up, without hv-avic"
            }
        };
        outcome
            .violated(one.position, message)
            .mended_by(Change::HyperV("avic", true))
            .inhibiting(Reason::Hyperv);
    } else {
        let message = if subject.vm.is_kvm() {
            "whether this guest uses AutoEOI is not known".to_owned()
        } else {
            unknown("whether KVM runs this machine", &subject.vm.accelerator.origin)
        };
        outcome.undecided(one.position, message).inhibiting(Reason::Hyperv);
    }
}

fn synic_on_old_kernel(subject: &Subject<'_>, outcome: &mut Outcome) {
    let Some((_, one)) = subject.inhibits(Reason::Hyperv).into_iter().next() else { return };
    if one.certainty >= Certainty::Likely {
        outcome
            .violated(one.position, "this kernel inhibits AVIC and APICv as soon as hv-synic is on")
            .inhibiting(Reason::Hyperv);
    } else {
        let what = "whether KVM runs this machine";
        let message = match subject.vm.is_kvm() {
            true => one.because,
            false => unknown(what, &subject.vm.accelerator.origin),
        };
        outcome.undecided(one.position, message).inhibiting(Reason::Hyperv);
    }
}

fn evmcs(subject: &Subject<'_>, outcome: &mut Outcome) {
    where_kvm(subject, outcome, &subject.vm.hyperv.evmcs, |flag, outcome| {
        outcome
            .violated(
                flag.position(),
                "hv-evmcs takes posted interrupts from a Hyper-V inside the guest",
            )
            .mended_by(Change::HyperV("evmcs", false));
    });
}

fn vapic_without_avic(subject: &Subject<'_>, outcome: &mut Outcome) {
    let hyperv = &subject.vm.hyperv;
    // With the SynIC on AV003 says the same, louder.
    if hyperv.has_avic() || hyperv.has_synic() {
        return;
    }
    where_kvm(subject, outcome, &hyperv.vapic, |flag, outcome| {
        outcome
            .violated(
                flag.position(),
                "hv-vapic makes Windows prefer MSRs to accelerated APIC registers",
            )
            .mended_by(Change::HyperV("avic", true));
    });
}

fn passthrough(subject: &Subject<'_>, outcome: &mut Outcome) {
    where_kvm(subject, outcome, &subject.vm.hyperv.passthrough, |flag, outcome| {
        outcome.violated(
            flag.position(),
            "which enlightenments the guest gets depends on the host's kernel",
        );
    });
}

fn ipi(subject: &Subject<'_>, outcome: &mut Outcome) {
    where_kvm(subject, outcome, &subject.vm.hyperv.ipi, |flag, outcome| {
        outcome.violated(
            flag.position(),
            "hv-ipi sends IPIs by hypercall, past AVIC and IPI virtualization",
        );
    });
}

fn without_stimer(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    if vm.guest.value != Guest::Windows || vm.hyperv.has_stimer() {
        return;
    }
    let flag = Some(Setting { value: true, origin: vm.guest.origin.clone() });
    where_kvm(subject, outcome, &flag, |flag, outcome| {
        outcome.violated(
            flag.position(),
            "Windows has no synthetic timers and ticks by an emulated device",
        );
    });
}

fn synic_needs_vpindex(subject: &Subject<'_>, outcome: &mut Outcome) {
    let hyperv = &subject.vm.hyperv;
    let has_vpindex = hyperv.vpindex.as_ref().is_some_and(|flag| flag.value)
        || hyperv.passthrough.as_ref().is_some_and(|flag| flag.value);
    if has_vpindex {
        return;
    }
    where_kvm(subject, outcome, &hyperv.synic, |flag, outcome| {
        outcome
            .violated(flag.position(), "hv-synic needs hv-vpindex")
            .mended_by(Change::HyperV("vpindex", true));
    });
}

fn avic_unknown_to_qemu(subject: &Subject<'_>, outcome: &mut Outcome) {
    where_kvm(subject, outcome, &subject.vm.hyperv.avic, |flag, outcome| {
        let version = subject.qemu.map_or_else(String::new, |version| format!(" {version}"));
        outcome.violated(flag.position(), format!("QEMU{version} does not know hv-avic"));
    });
}

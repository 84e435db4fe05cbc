//! Hyper-V's synthetic interrupts leave AVIC and APICv on.

use crate::configuration::change::MachineChange;
use crate::finding::Severity;
use crate::inhibit::{Certainty, Reason};
use crate::lint::decision::machine::unknown;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;
use crate::vm::Vmm;
use reading::KernelFeature;

pub const RULE: Rule = Rule {
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
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
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
            .repaired_by(MachineChange::HyperV("avic", true))
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

//! KVM's in-kernel PIT does not reinject missed ticks.

use crate::configuration::change::MachineChange;
use crate::finding::Severity;
use crate::inhibit::Reason;
use crate::lint::decision::machine::unknown;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{AMD, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;
use crate::vm::{Origin, Vmm};
use reading::KernelFeature;

pub const RULE: Rule = Rule {
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
types microvm and pc-q35-4.0 split the irqchip by themselves. Firecracker, crosvm and kvmtool create the same PIT and
never switch reinjection off. Intel's APICv does not mind.

Let the PIT discard missed ticks (a guest whose clock is kvmclock, the TSC or the HPET does not count them), or split the irqchip, or leave the
PIT out with `-machine pit=off` where the guest needs none.

- QEMU: `-global kvm-pit.lost_tick_policy=discard`
- libvirt: `<timer name='pit' tickpolicy='discard'/>` in `<clock>`
- Proxmox: `args: -global kvm-pit.lost_tick_policy=discard`
- KubeVirt: `clock.timer.pit.tickPolicy: discard`
- crosvm: `--split-irqchip`
- Firecracker and kvmtool: no setting does it",
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
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
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
                .repaired_by(MachineChange::DiscardPitTicks)
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

//! Extended destination IDs come with a split irqchip.

use crate::configuration::change::MachineChange;
use crate::finding::Severity;
use crate::lint::decision::machine::unknown;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;
use crate::vm::Irqchip;

pub const RULE: Rule = Rule {
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
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
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
                .repaired_by(MachineChange::SplitIrqchip);
        }
    }
}

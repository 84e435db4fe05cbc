//! The guest's memory is not encrypted with SEV.

use crate::finding::Severity;
use crate::inhibit::Reason;
use crate::lint::decision::machine::accelerator_is_open;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{AMD, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;
use reading::KernelFeature;

pub const RULE: Rule = Rule {
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
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    let Some((_, one)) = subject.inhibits(Reason::Sev).into_iter().next() else { return };
    if one.is_lasting() {
        outcome.violated(one.position, "an encrypted guest has no AVIC").inhibiting(Reason::Sev);
    } else {
        accelerator_is_open(subject, outcome, one.position);
    }
}

//! AVIC and APICv are not switched off by a parameter.

use crate::feature::{Feature, vendor_of_module};
use crate::finding::Severity;
use crate::inhibit::Reason;
use crate::lint::decision::module::{concerned, each, set, switch};
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Options;

pub const RULE: Rule = Rule {
    id: "AV102",
    name: "feature-off",
    severity: Severity::Error,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "AVIC and APICv are not switched off by a parameter",
    explanation: "
`kvm_amd avic=0` and `kvm_intel enable_apicv=0` switch the feature off for every virtual machine (inhibit `DISABLED`). They are often
left over from bugs long fixed: AVIC with device assignment in 5.6 (bugzilla 206579), APICv with device assignment (bugzilla
207489), APICv with Windows guests in 5.18 and 5.19. The parameters are read when the module loads; writing to the files in
`/sys/module` is refused.

What such a load clears in `kvm` stays: `enable_apicv` (Intel), `enable_device_posted_irqs` from 6.16 and `enable_ipiv` from 6.17 on read
`N` until `kvm` itself is loaded again, or the option is given as 1. So take both out: `modprobe -r kvm_amd kvm && modprobe kvm_amd`.",
    bad: "options kvm_intel enable_apicv=0",
    good: "options kvm_intel enable_apicv=1",
    unknown: "GRUB_CMDLINE_LINUX=\"kvm_amd.avic=$AVIC\"",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &[
        "Linux 6.12 arch/x86/kvm/svm/svm.c, avic",
        "Linux 6.12 arch/x86/kvm/vmx/vmx.c, enable_apicv",
        "Linux 6.17 arch/x86/kvm/x86.c, enable_ipiv, commit d921665e01ba",
    ],
    check: Check::Options(check),
};

fn check(options: &Options<'_>, outcome: &mut Outcome) {
    each(options, outcome, |option, outcome| {
        let Some(vendor) = vendor_of_module(&option.module) else { return };
        let feature = Feature::of_vendor(vendor);
        if feature.parameter().name == option.name && switch(option) == Some(false) {
            outcome
                .violated(
                    Some(option.at),
                    format!("{feature} is switched off for every virtual machine"),
                )
                .on(concerned(option))
                .repaired_by(set(option, options.kind, "1"))
                .inhibiting(Reason::Disabled);
        }
    });
}

//! A kernel before 5.19 with AVIC does not offer nested virtualization.

use crate::feature::AMD_MODULE;
use crate::finding::Severity;
use crate::lint::decision::module::{each, set, switch};
use crate::lint::outcome::Outcome;
use crate::lint::rule::{AMD, Check, Kernels, Rule, Versions};
use crate::lint::subject::Options;
use reading::KernelFeature;

pub const RULE: Rule = Rule {
    id: "AV105",
    name: "nested-parameter-on-old-kernel",
    severity: Severity::Warning,
    vendors: AMD,
    kernels: Kernels::before(KernelFeature::NestedPerVcpu),
    qemu: Versions::ALL,
    summary: "A kernel before 5.19 with AVIC does not offer nested virtualization",
    explanation: "
Up to Linux 5.18 a guest that sees SVM never gets AVIC (AV006). With `nested=0` no guest sees it, whatever its CPU
model; otherwise each virtual machine has to hide it with `svm=off`.",
    bad: "options kvm_amd avic=1 nested=1",
    good: "options kvm_amd avic=1 nested=0",
    unknown: "GRUB_CMDLINE_LINUX=\"kvm_amd.nested=$NESTED\"",
    example_kernel: "5.18",
    example_qemu: "",
    is_fixable: true,
    sources: &["Linux 5.18 arch/x86/kvm/svm/svm.c, svm_vcpu_after_set_cpuid"],
    check: Check::Options(check),
};

fn check(options: &Options<'_>, outcome: &mut Outcome) {
    each(options, outcome, |option, outcome| {
        if option.module == AMD_MODULE && option.name == "nested" && switch(option) == Some(true) {
            outcome
                .violated(
                    Some(option.at),
                    "with nested=1 a guest that sees SVM gets no AVIC on this kernel",
                )
                .repaired_by(set(option, options.kind, "0"));
        }
    });
}

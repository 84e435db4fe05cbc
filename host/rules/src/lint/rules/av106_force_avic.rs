//! AVIC is not forced on a CPU that does not announce it.

use crate::feature::AMD_MODULE;
use crate::finding::Severity;
use crate::lint::decision::module::{each, remove, switch};
use crate::lint::outcome::Outcome;
use crate::lint::rule::{AMD, Check, Kernels, Rule, Versions};
use crate::lint::subject::Options;
use reading::KernelFeature;

pub const RULE: Rule = Rule {
    id: "AV106",
    name: "force-avic",
    severity: Severity::Warning,
    vendors: AMD,
    kernels: Kernels::from(KernelFeature::ForceAvic),
    qemu: Versions::ALL,
    summary: "AVIC is not forced on a CPU that does not announce it",
    explanation: "
`force_avic=1` ignores a missing CPUID bit and taints the kernel. Where firmware or AMD hides AVIC, as on most Zen 3, it is hidden for
a reason that need not show at once: lost interrupts and guests that hang. Where CPUID shows AVIC it does nothing.",
    bad: "options kvm_amd avic=1 force_avic=1",
    good: "options kvm_amd avic=1",
    unknown: "GRUB_CMDLINE_LINUX=\"kvm_amd.force_avic=$FORCE\"",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &["Linux 6.1 arch/x86/kvm/svm/avic.c, avic_hardware_setup"],
    check: Check::Options(check),
};

fn check(options: &Options<'_>, outcome: &mut Outcome) {
    each(options, outcome, |option, outcome| {
        if option.module == AMD_MODULE
            && option.name == "force_avic"
            && switch(option) == Some(true)
        {
            outcome
                .violated(
                    Some(option.at),
                    "force_avic uses AVIC where the CPU does not announce it",
                )
                .repaired_by(remove(option, options.kind));
        }
    });
}

//! Nested paging is on, which AVIC needs.

use crate::feature::AMD_MODULE;
use crate::finding::Severity;
use crate::lint::decision::module::{each, set, switch};
use crate::lint::outcome::Outcome;
use crate::lint::rule::{AMD, Check, Kernels, Rule, Versions};
use crate::lint::subject::Options;

pub const RULE: Rule = Rule {
    id: "AV104",
    name: "npt-off",
    severity: Severity::Error,
    vendors: AMD,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "Nested paging is on, which AVIC needs",
    explanation: "
AVIC redirects the guest's APIC page through nested page tables. With `kvm_amd npt=0` KVM does not use AVIC at all, and
everything else is slower too. Old guides for Windows and macOS guests still recommend it.",
    bad: "options kvm_amd avic=1 npt=0",
    good: "options kvm_amd avic=1 npt=1",
    unknown: "GRUB_CMDLINE_LINUX=\"kvm_amd.npt=$NPT\"",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &["Linux 6.12 arch/x86/kvm/svm/avic.c, avic_hardware_setup"],
    check: Check::Options(check),
};

fn check(options: &Options<'_>, outcome: &mut Outcome) {
    each(options, outcome, |option, outcome| {
        if option.module == AMD_MODULE && option.name == "npt" && switch(option) == Some(false) {
            outcome
                .violated(Some(option.at), "without nested paging KVM does not use AVIC")
                .repaired_by(set(option, options.kind, "1"));
        }
    });
}

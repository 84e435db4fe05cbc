//! IPI virtualization is not switched off by a parameter.

use crate::finding::Severity;
use crate::lint::decision::module::{concerned, each, set, switch};
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Options;

pub const RULE: Rule = Rule {
    id: "AV107",
    name: "ipi-virtualization-off",
    severity: Severity::Warning,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "IPI virtualization is not switched off by a parameter",
    explanation: "
With `enable_ipiv=0` AVIC and APICv stay on, and yet every IPI to another vCPU is an exit. The parameter exists in `kvm_intel` from
6.0 and in `kvm_amd` from 6.17 on. Zen 1, Zen 2 and Hygon's parts need it off for erratum 1235, and newer kernels see
to that by themselves.",
    bad: "options kvm_intel enable_ipiv=0",
    good: "options kvm_intel enable_ipiv=1",
    unknown: "GRUB_CMDLINE_LINUX=\"kvm_intel.enable_ipiv=$IPIV\"",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &[
        "Linux 6.0 arch/x86/kvm/vmx/vmx.c, enable_ipiv",
        "Linux 6.17 arch/x86/kvm/svm/avic.c, commit 8de4a1c8164e",
    ],
    check: Check::Options(check),
};

fn check(options: &Options<'_>, outcome: &mut Outcome) {
    each(options, outcome, |option, outcome| {
        if option.name == "enable_ipiv" && switch(option) == Some(false) {
            outcome
                .violated(Some(option.at), "IPIs between vCPUs exit, though AVIC or APICv is on")
                .on(concerned(option))
                .repaired_by(set(option, options.kind, "1"));
        }
    });
}

//! A kernel before 6.18 is told to use AVIC.

use crate::configuration::ModuleOption;
use crate::configuration::change::ParameterChange;
use crate::feature::AMD_MODULE;
use crate::finding::Severity;
use crate::lint::decision::module::{is_open, open_words};
use crate::lint::outcome::Outcome;
use crate::lint::rule::{AMD, Check, Kernels, Rule, Versions};
use crate::lint::subject::Options;
use reading::KernelFeature;

pub const RULE: Rule = Rule {
    id: "AV101",
    name: "avic-not-enabled",
    severity: Severity::Error,
    vendors: AMD,
    kernels: Kernels::before(KernelFeature::AvicByDefault),
    qemu: Versions::ALL,
    summary: "A kernel before 6.18 is told to use AVIC",
    explanation: "
Up to Linux 6.17 `kvm_amd.avic` is off by default. From 6.18 on it is automatic: on for CPUs with x2AVIC from Zen 4 on. Where the
module's options are set at all, `avic=1` belongs among them. It needs a CPU that has AVIC: `avicenna check` says.",
    bad: "options kvm_amd nested=0",
    good: "options kvm_amd nested=0 avic=1",
    unknown: "GRUB_CMDLINE_LINUX=\"kvm_amd.nested=0 $MORE\"",
    example_kernel: "6.12",
    example_qemu: "",
    is_fixable: true,
    sources: &["Linux 6.18 arch/x86/kvm/svm/avic.c, commit ca2967de5a5b"],
    check: Check::Options(check),
};

fn check(options: &Options<'_>, outcome: &mut Outcome) {
    let mut of_module = options.given.iter().filter(|option| option.module == AMD_MODULE);
    let Some(first) = of_module.clone().next() else { return open_words(options, outcome) };
    let is_avic = |option: &ModuleOption| option.module == AMD_MODULE && option.name == "avic";
    if of_module.any(is_avic) || options.elsewhere.iter().any(is_avic) {
        return;
    }
    if options.given.iter().any(is_open) {
        return open_words(options, outcome);
    }
    let last = options.given.iter().rfind(|option| option.module == AMD_MODULE).unwrap_or(first);
    outcome
        .violated(
            Some(first.at),
            "kvm_amd has options but not avic=1, and AVIC is off by default before 6.18",
        )
        .repaired_by(ParameterChange::Add {
            after: last.at,
            module: AMD_MODULE.into(),
            option: "avic=1",
        });
}

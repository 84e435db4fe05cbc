//! Each parameter is one of the module it is given to.

use crate::feature::{AMD_MODULE, INTEL_MODULE};
use crate::finding::Severity;
use crate::lint::decision::module::{concerned, each, remove};
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Options;

pub const RULE: Rule = Rule {
    id: "AV103",
    name: "parameter-of-other-module",
    severity: Severity::Warning,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "Each parameter is one of the module it is given to",
    explanation: "
`enable_apicv`, `ept`, `vpid` and `unrestricted_guest` belong to `kvm_intel`; `avic`, `npt` and `vgif` to `kvm_amd`; neither to `kvm`. The
kernel says `unknown parameter … ignored` in its log, and nothing changes. The counterpart of `enable_apicv` on AMD is `avic`.",
    bad: "options kvm_amd avic=1 enable_apicv=1",
    good: "options kvm_amd avic=1",
    unknown: "GRUB_CMDLINE_LINUX=\"kvm_amd.avic=1 $MORE\"",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &["Linux 7.3 arch/x86/kvm/svm/svm.c and vmx/vmx.c, module_param"],
    check: Check::Options(check),
};

const AMD_ONLY: [&str; 12] = [
    "avic",
    "force_avic",
    "npt",
    "nrips",
    "vls",
    "vgif",
    "lbrv",
    "sev",
    "sev_es",
    "sev_snp",
    "tsc_scaling",
    "pause_filter_count",
];

const INTEL_ONLY: [&str; 14] = [
    "enable_apicv",
    "ept",
    "eptad",
    "vpid",
    "unrestricted_guest",
    "flexpriority",
    "pml",
    "ple_gap",
    "ple_window",
    "preemption_timer",
    "emulate_invalid_guest_state",
    "fasteoi",
    "enable_shadow_vmcs",
    "tdx",
];

fn check(options: &Options<'_>, outcome: &mut Outcome) {
    each(options, outcome, |option, outcome| {
        let name = option.name.as_str();
        let owner = match option.module.as_str() {
            AMD_MODULE if INTEL_ONLY.contains(&name) => INTEL_MODULE,
            INTEL_MODULE if AMD_ONLY.contains(&name) => AMD_MODULE,
            "kvm" if INTEL_ONLY.contains(&name) => INTEL_MODULE,
            "kvm" if AMD_ONLY.contains(&name) => AMD_MODULE,
            _ => return,
        };
        let message = format!("{name} is a parameter of {owner}: {} ignores it", option.module);
        outcome
            .violated(Some(option.at), message)
            .on(concerned(option))
            .repaired_by(remove(option, options.kind));
    });
}

//! Each value is one that the parameter takes.

use crate::feature::vendor_of_module;
use crate::finding::Severity;
use crate::lint::decision::module::{concerned, each, switch};
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Options;
use reading::KernelFeature;

pub const RULE: Rule = Rule {
    id: "AV111",
    name: "invalid-value",
    severity: Severity::Error,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "Each value is one that the parameter takes",
    explanation: "
Parameters that are switches take 1, 0, y, n, on and off; `avic` also takes `auto` from 6.18 on. With any other value the module does not load: no
virtual machine starts.",
    bad: "options kvm_amd avic=enabled",
    good: "options kvm_amd avic=1",
    unknown: "GRUB_CMDLINE_LINUX=\"kvm_amd.avic=$AVIC\"",
    example_kernel: "",
    example_qemu: "",
    is_fixable: false,
    sources: &["Linux 6.12 lib/kstrtox.c, kstrtobool", "Linux 6.18 arch/x86/kvm/svm/avic.c, avic_param_set"],
    check: Check::Options(check),
};

/// Switches of these modules that rules read.
const SWITCHES: [&str; 6] =
    ["avic", "force_avic", "npt", "enable_apicv", "enable_ipiv", "enable_device_posted_irqs"];

fn check(options: &Options<'_>, outcome: &mut Outcome) {
    let has_auto =
        options.kernel.is_none_or(|kernel| kernel.has(KernelFeature::AvicByDefault) != Some(false));
    each(options, outcome, |option, outcome| {
        let name = option.name.as_str();
        let is_switch = SWITCHES.contains(&name) && vendor_of_module(&option.module).is_some();
        let is_auto = name == "avic" && has_auto && matches!(option.value.as_deref(), Some("auto"));
        if is_switch && !is_auto && switch(option).is_none() {
            let value = option.value.as_deref().unwrap_or_default();
            let message =
                format!("'{value}' is not a value for {name}: {} does not load", option.module);
            outcome.violated(Some(option.at), message).on(concerned(option));
        }
    });
}

//! The kernel knows each parameter.

use crate::feature::{AMD_MODULE, parameter_named, vendor_of_module};
use crate::finding::Severity;
use crate::lint::decision::module::{concerned, each, remove};
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Options;
use reading::KernelFeature;

pub const RULE: Rule = Rule {
    id: "AV109",
    name: "parameter-newer-than-kernel",
    severity: Severity::Warning,
    vendors: BOTH,
    kernels: Kernels::before(KernelFeature::AmdIpiv),
    qemu: Versions::ALL,
    summary: "The kernel knows each parameter",
    explanation: "
A parameter that the running kernel does not know yet is ignored with a line in its log. `force_avic` came with 5.19,
`enable_ipiv` with 6.0 (`kvm_intel`) and 6.17 (`kvm_amd`), `enable_device_posted_irqs` with 6.16. Kernels of distributions may carry
them earlier.",
    bad: "options kvm_amd avic=1 enable_ipiv=1",
    good: "options kvm_amd avic=1",
    unknown: "GRUB_CMDLINE_LINUX=\"kvm_amd.avic=1 $MORE\"",
    example_kernel: "6.12",
    example_qemu: "",
    is_fixable: true,
    sources: &["Linux 5.19, 6.16 and 6.17 arch/x86/kvm, module_param"],
    check: Check::Options(check),
};

fn check(options: &Options<'_>, outcome: &mut Outcome) {
    let Some(kernel) = options.kernel else { return };
    each(options, outcome, |option, outcome| {
        let Some(vendor) = vendor_of_module(&option.module) else { return };
        let since = match (option.module.as_str(), option.name.as_str()) {
            (AMD_MODULE, "force_avic") => Some(KernelFeature::ForceAvic),
            (_, name) => parameter_named(vendor, name).and_then(|parameter| parameter.since),
        };
        let Some(since) = since else { return };
        let (name, version) = (&option.name, since.since());
        let message = format!("{name} came with Linux {version}");
        match kernel.has(since) {
            Some(true) => {}
            Some(false) => {
                let kernel = kernel.numbers();
                outcome
                    .violated(Some(option.at), format!("{message}; {kernel} ignores it"))
                    .on(concerned(option))
                    .repaired_by(remove(option, options.kind));
            }
            None => {
                let release = &kernel.release;
                outcome.undecided(
                    Some(option.at),
                    format!(
                        "{message}; whether {release} has it is not known, its number does not tell"
                    ),
                );
            }
        }
    });
}

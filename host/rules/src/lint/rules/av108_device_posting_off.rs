//! Posting of device interrupts is not switched off by a parameter.

use crate::finding::Severity;
use crate::lint::decision::module::{concerned, each, set, switch};
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Options;
use reading::KernelFeature;

pub const RULE: Rule = Rule {
    id: "AV108",
    name: "device-posting-off",
    severity: Severity::Warning,
    vendors: BOTH,
    kernels: Kernels::from(KernelFeature::DevicePostedIrqs),
    qemu: Versions::ALL,
    summary: "Posting of device interrupts is not switched off by a parameter",
    explanation: "
With `enable_device_posted_irqs=0` (6.16 and newer) interrupts of passed-through devices go to the host first, which injects them into the
guest, though the IOMMU could deliver them straight.",
    bad: "options kvm_amd avic=1 enable_device_posted_irqs=0",
    good: "options kvm_amd avic=1 enable_device_posted_irqs=1",
    unknown: "GRUB_CMDLINE_LINUX=\"kvm_amd.enable_device_posted_irqs=$POST\"",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &["Linux 6.16 arch/x86/kvm/x86.c, enable_device_posted_irqs"],
    check: Check::Options(check),
};

fn check(options: &Options<'_>, outcome: &mut Outcome) {
    each(options, outcome, |option, outcome| {
        if option.name == "enable_device_posted_irqs" && switch(option) == Some(false) {
            outcome
                .violated(Some(option.at), "interrupts of passed-through devices are not posted")
                .on(concerned(option))
                .repaired_by(set(option, options.kind, "1"));
        }
    });
}

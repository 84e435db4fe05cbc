//! Posting of interrupts by the IOMMU is not switched off.

use crate::finding::Severity;
use crate::lint::decision::boot::{each, without};
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Options;
use reading::KernelFeature;

pub const RULE: Rule = Rule {
    id: "AV205",
    name: "posting-off",
    severity: Severity::Error,
    vendors: BOTH,
    kernels: Kernels::from(KernelFeature::NoPost),
    qemu: Versions::ALL,
    summary: "Posting of interrupts by the IOMMU is not switched off",
    explanation: "
`intremap=nopost` keeps remapping and gives up posting: interrupts of passed-through devices go to the host first.",
    bad: "BOOT_IMAGE=/vmlinuz root=/dev/sda1 intremap=nopost",
    good: "BOOT_IMAGE=/vmlinuz root=/dev/sda1 intremap=no_x2apic_optout",
    unknown: "GRUB_CMDLINE_LINUX=\"intremap=$MODE\"",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &["Linux 6.12 drivers/iommu/irq_remapping.c, setup_irqremap"],
    check: Check::Options(check),
};

fn check(options: &Options<'_>, outcome: &mut Outcome) {
    each(options, outcome, |option, values, outcome| {
        if option.name == "intremap" && values.contains(&"nopost") {
            outcome
                .violated(Some(option.at), "the IOMMU is told not to post interrupts")
                .repaired_by(without(option, values, &["nopost"]));
        }
    });
}

//! AMD's IOMMU may use its guest virtual APIC mode.

use crate::configuration::change::ParameterChange;
use crate::finding::Severity;
use crate::lint::decision::boot::each;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{AMD, Check, Kernels, Rule, Versions};
use crate::lint::subject::Options;

pub const RULE: Rule = Rule {
    id: "AV203",
    name: "amd-iommu-intr-legacy",
    severity: Severity::Error,
    vendors: AMD,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "AMD's IOMMU may use its guest virtual APIC mode",
    explanation: "
`amd_iommu_intr=legacy` switches the IOMMU's guest virtual APIC mode off: interrupts of passed-through devices are remapped and go to the
host, though AVIC could take them. The default is `vapic`.",
    bad: "BOOT_IMAGE=/vmlinuz root=/dev/sda1 amd_iommu_intr=legacy",
    good: "BOOT_IMAGE=/vmlinuz root=/dev/sda1 amd_iommu_intr=vapic",
    unknown: "GRUB_CMDLINE_LINUX=\"amd_iommu_intr=$MODE\"",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &["Linux 6.12 drivers/iommu/amd/init.c, parse_amd_iommu_intr"],
    check: Check::Options(check),
};

fn check(options: &Options<'_>, outcome: &mut Outcome) {
    each(options, outcome, |option, values, outcome| {
        if option.name == "amd_iommu_intr" && values.contains(&"legacy") {
            let change = ParameterChange::Set {
                at: option.at,
                value_at: option.value_at,
                name: option.name.clone(),
                value: "vapic",
            };
            outcome
                .violated(Some(option.at), "the IOMMU's guest virtual APIC mode is switched off")
                .repaired_by(change);
        }
    });
}

//! Each option of amd_iommu= is one the kernel knows.

use crate::finding::Severity;
use crate::lint::decision::boot::{each, without};
use crate::lint::outcome::Outcome;
use crate::lint::rule::{AMD, Check, Kernels, Rule, Versions};
use crate::lint::subject::Options;

pub const RULE: Rule = Rule {
    id: "AV201",
    name: "amd-iommu-unknown-option",
    severity: Severity::Warning,
    vendors: AMD,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "Each option of amd_iommu= is one the kernel knows",
    explanation: "
`amd_iommu=on` does nothing: the kernel logs `AMD-Vi: Unknown option - 'on'`. AMD's IOMMU is on whenever firmware offers it (`intel_iommu=on` is
another matter). Guides and even compliance checks ask for it all the same; take it out, so that nobody relies on it.
Known options are, among others, `off`, `fullflush`, `force_isolation`, `force_enable`, `irtcachedis`, `pgtbl_v1` and
`pgtbl_v2`; `pt` belongs to `iommu=`.",
    bad: "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro amd_iommu=on iommu=pt",
    good: "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro iommu=pt",
    unknown: "GRUB_CMDLINE_LINUX=\"amd_iommu=$MODE\"",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &["Linux 6.12 drivers/iommu/amd/init.c, parse_amd_iommu_options"],
    check: Check::Options(check),
};

/// What parse_amd_iommu_options knows, all versions together.
const AMD_IOMMU_OPTIONS: [&str; 10] = [
    "fullflush",
    "force_enable",
    "off",
    "force_isolation",
    "pgtbl_v1",
    "pgtbl_v2",
    "irtcachedis",
    "nohugepages",
    "v2_pgsizes_only",
    "hatdis",
];

fn check(options: &Options<'_>, outcome: &mut Outcome) {
    each(options, outcome, |option, values, outcome| {
        if option.name != "amd_iommu" {
            return;
        }
        for value in values.iter().filter(|value| !AMD_IOMMU_OPTIONS.contains(*value)) {
            outcome
                .violated(
                    Some(option.at),
                    format!("amd_iommu knows no option '{value}' and ignores it"),
                )
                .repaired_by(without(option, values, &[*value]));
        }
    });
}

//! The IOMMU is not switched off.

use crate::boot_word::Takes;
use crate::finding::Severity;
use crate::lint::decision::boot::table;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Options;

pub const RULE: Rule = Rule {
    id: "AV202",
    name: "iommu-off",
    severity: Severity::Warning,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "The IOMMU is not switched off",
    explanation: "
Without an IOMMU no device can be passed to a guest, so none of its interrupts can be posted; on AMD (`amd_iommu=off`, `iommu=off`)
interrupt remapping goes with it, and with it x2APIC on large machines. AVIC and APICv between vCPUs do not need it.",
    bad: "BOOT_IMAGE=/vmlinuz root=/dev/sda1 amd_iommu=off",
    good: "BOOT_IMAGE=/vmlinuz root=/dev/sda1 iommu=pt",
    unknown: "GRUB_CMDLINE_LINUX=\"iommu=$MODE\"",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &["Linux 6.12 Documentation/admin-guide/kernel-parameters.txt, amd_iommu, intel_iommu, iommu"],
    check: Check::Options(check),
};

fn check(options: &Options<'_>, outcome: &mut Outcome) {
    table(options, outcome, Takes::Iommu, |_| {
        "without an IOMMU no device interrupt can be posted".into()
    });
}

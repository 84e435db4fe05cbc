//! Devices may use message-signalled interrupts.

use crate::boot_word::Takes;
use crate::finding::Severity;
use crate::lint::decision::boot::table;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Options;

pub const RULE: Rule = Rule {
    id: "AV208",
    name: "msi-off",
    severity: Severity::Error,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "Devices may use message-signalled interrupts",
    explanation: "
The IOMMU posts messages only. With `pci=nomsi` every device interrupts by a line, which always goes to the host.",
    bad: "BOOT_IMAGE=/vmlinuz root=/dev/sda1 pci=nomsi",
    good: "BOOT_IMAGE=/vmlinuz root=/dev/sda1 pci=realloc",
    unknown: "GRUB_CMDLINE_LINUX=\"pci=$PCI\"",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &["Linux 6.12 Documentation/admin-guide/kernel-parameters.txt, pci=nomsi"],
    check: Check::Options(check),
};

fn check(options: &Options<'_>, outcome: &mut Outcome) {
    table(options, outcome, Takes::Messages, |_| {
        "without MSI no device interrupt can be posted".into()
    });
}

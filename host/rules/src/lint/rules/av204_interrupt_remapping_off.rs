//! Interrupt remapping is not switched off.

use crate::boot_word::Takes;
use crate::finding::Severity;
use crate::lint::decision::boot::table;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Options;

pub const RULE: Rule = Rule {
    id: "AV204",
    name: "interrupt-remapping-off",
    severity: Severity::Error,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "Interrupt remapping is not switched off",
    explanation: "
`intremap=off` (once `nointremap`) takes away interrupt remapping, and with it posting of device interrupts on both vendors, x2APIC on many
hosts, and the protection against devices that forge interrupts.",
    bad: "BOOT_IMAGE=/vmlinuz root=/dev/sda1 intremap=off",
    good: "BOOT_IMAGE=/vmlinuz root=/dev/sda1 intremap=on",
    unknown: "GRUB_CMDLINE_LINUX=\"intremap=$MODE\"",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &["Linux 6.12 drivers/iommu/irq_remapping.c, setup_irqremap"],
    check: Check::Options(check),
};

fn check(options: &Options<'_>, outcome: &mut Outcome) {
    table(options, outcome, Takes::Remapping, |_| {
        "without interrupt remapping no device interrupt can be posted".into()
    });
}

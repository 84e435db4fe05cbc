//! The host may use x2APIC.

use crate::boot_word::Takes;
use crate::finding::Severity;
use crate::lint::decision::boot::table;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Options;

pub const RULE: Rule = Rule {
    id: "AV206",
    name: "host-x2apic-off",
    severity: Severity::Warning,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "The host may use x2APIC",
    explanation: "
With `nox2apic` the host stays in xAPIC mode: CPUs with APIC IDs above 254 are lost, the IOMMU remaps to 8-bit destinations,
and KVM finds no x2APIC in the host's features. It is a leftover of firmware bugs; recent Intel parts ignore it, since their
APIC is locked in x2APIC mode.",
    bad: "BOOT_IMAGE=/vmlinuz root=/dev/sda1 nox2apic",
    good: "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro",
    unknown: "GRUB_CMDLINE_LINUX=\"$APIC\"",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &["Linux 6.12 arch/x86/kernel/apic/apic.c, setup_nox2apic"],
    check: Check::Options(check),
};

fn check(options: &Options<'_>, outcome: &mut Outcome) {
    table(options, outcome, Takes::X2apic, |_| "the host is kept from x2APIC".into());
}

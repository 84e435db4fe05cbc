//! The host uses its APICs.

use crate::boot_word::Takes;
use crate::finding::Severity;
use crate::lint::decision::boot::table;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Options;

pub const RULE: Rule = Rule {
    id: "AV207",
    name: "host-apic-off",
    severity: Severity::Error,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "The host uses its APICs",
    explanation: "
`noapic` takes the I/O APIC from the kernel and `nolapic` (or `disableapic`) the local APIC: no interrupt remapping, no posting, and
with `nolapic` a single CPU and no KVM worth the name.",
    bad: "BOOT_IMAGE=/vmlinuz root=/dev/sda1 noapic",
    good: "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro",
    unknown: "GRUB_CMDLINE_LINUX=\"$APIC\"",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &["Linux 6.12 Documentation/admin-guide/kernel-parameters.txt, noapic, nolapic"],
    check: Check::Options(check),
};

fn check(options: &Options<'_>, outcome: &mut Outcome) {
    table(options, outcome, Takes::Apic, |word| {
        format!("{} takes the host's APICs away", word.key)
    });
}

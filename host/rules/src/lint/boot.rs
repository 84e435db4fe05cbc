//! Rules about the kernel's own parameters.

use super::change::Change;
use super::module::open_words;
use super::rule::{AMD, BOTH, Check, Kernels, Rule, Versions};
use super::{Options, Outcome};
use crate::boot_word::{BootWord, Takes, WORDS};
use crate::configuration::Kind;
use crate::configuration::module_options::ModuleOption;
use crate::finding::Severity;
use crate::host::KernelFeature;

pub(super) const RULES: &[Rule] = &[
    Rule {
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
        check: Check::Options(amd_iommu_unknown_option),
    },
    Rule {
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
        check: Check::Options(iommu_off),
    },
    Rule {
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
        check: Check::Options(amd_iommu_intr_legacy),
    },
    Rule {
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
        check: Check::Options(interrupt_remapping_off),
    },
    Rule {
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
        check: Check::Options(posting_off),
    },
    Rule {
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
        check: Check::Options(host_x2apic_off),
    },
    Rule {
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
        check: Check::Options(host_apic_off),
    },
    Rule {
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
        check: Check::Options(msi_off),
    },
];

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

/// Runs a check on each of the kernel's own parameters; open words decide nothing.
fn each(
    options: &Options<'_>,
    outcome: &mut Outcome,
    violated: impl Fn(&ModuleOption, &[&str], &mut Outcome),
) {
    if options.contents.kind != Kind::KernelCommandLine {
        return;
    }
    for option in options.contents.options.iter().filter(|option| option.module.is_empty()) {
        let value = option.value.as_deref().unwrap_or_default();
        if option.name.contains(['$', '`']) || value.contains(['$', '`']) {
            continue;
        }
        let values: Vec<&str> = value.split(',').collect();
        violated(option, &values, outcome);
    }
    open_words(options, outcome);
}

/// Takes one value out of a comma-separated list, or the whole parameter when it was the only one.
fn without(option: &ModuleOption, values: &[&str], unwanted: &[&str]) -> Change {
    let rest = values.iter().filter(|value| !unwanted.contains(value)).count();
    if rest > 0 {
        // The list is rewritten in place by the edits; the name says which.
        let name = format!("{}={}", option.name, unwanted.join(","));
        return Change::RemoveOption { at: value_place(option, values, unwanted), name };
    }
    Change::RemoveOption { at: option.at, name: option.at_name() }
}

/// Place of the first unwanted value together with one of its commas.
fn value_place(option: &ModuleOption, values: &[&str], unwanted: &[&str]) -> crate::Position {
    let mut start = option.value_at.start;
    for (index, value) in values.iter().enumerate() {
        let end = start + value.len();
        if unwanted.contains(value) {
            let (start, end) = if index == 0 { (start, end + 1) } else { (start - 1, end) };
            return crate::Position { start, end, ..option.value_at };
        }
        start = end + 1;
    }
    option.at
}

impl ModuleOption {
    fn at_name(&self) -> String {
        match &self.value {
            Some(value) => format!("{}={value}", self.name),
            None => self.name.clone(),
        }
    }
}

fn amd_iommu_unknown_option(options: &Options<'_>, outcome: &mut Outcome) {
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
                .mended_by(without(option, values, &[*value]));
        }
    });
}

/// The words of the table that a parameter contains and that matter to the target.
fn taking(option: &ModuleOption, options: &Options<'_>, takes: Takes) -> Vec<&'static BootWord> {
    let value = option.value.as_deref();
    WORDS
        .iter()
        .filter(|word| word.takes == takes && word.is_in(&option.name, value))
        .filter(|word| options.vendors.iter().any(|vendor| word.concerns(*vendor)))
        .collect()
}

/// Says what is taken away by words of the table.
fn table(
    options: &Options<'_>,
    outcome: &mut Outcome,
    takes: Takes,
    message: impl Fn(&BootWord) -> String,
) {
    each(options, outcome, |option, values, outcome| {
        let words = taking(option, options, takes);
        let Some(word) = words.first() else { return };
        let unwanted: Vec<&str> = words.iter().map(|word| word.value.unwrap_or("")).collect();
        let vendors = options.vendors.iter().copied().filter(|vendor| word.concerns(*vendor));
        outcome
            .violated(Some(option.at), message(word))
            .on(vendors.collect())
            .mended_by(without(option, values, &unwanted));
    });
}

fn iommu_off(options: &Options<'_>, outcome: &mut Outcome) {
    table(options, outcome, Takes::Iommu, |_| {
        "without an IOMMU no device interrupt can be posted".into()
    });
}

fn amd_iommu_intr_legacy(options: &Options<'_>, outcome: &mut Outcome) {
    each(options, outcome, |option, values, outcome| {
        if option.name == "amd_iommu_intr" && values.contains(&"legacy") {
            let change = Change::SetOption {
                at: option.at,
                value_at: option.value_at,
                name: option.name.clone(),
                value: "vapic",
            };
            outcome
                .violated(Some(option.at), "the IOMMU's guest virtual APIC mode is switched off")
                .mended_by(change);
        }
    });
}

fn interrupt_remapping_off(options: &Options<'_>, outcome: &mut Outcome) {
    table(options, outcome, Takes::Remapping, |_| {
        "without interrupt remapping no device interrupt can be posted".into()
    });
}

fn posting_off(options: &Options<'_>, outcome: &mut Outcome) {
    each(options, outcome, |option, values, outcome| {
        if option.name == "intremap" && values.contains(&"nopost") {
            outcome
                .violated(Some(option.at), "the IOMMU is told not to post interrupts")
                .mended_by(without(option, values, &["nopost"]));
        }
    });
}

fn host_x2apic_off(options: &Options<'_>, outcome: &mut Outcome) {
    table(options, outcome, Takes::X2apic, |_| "the host is kept from x2APIC".into());
}

fn host_apic_off(options: &Options<'_>, outcome: &mut Outcome) {
    table(options, outcome, Takes::Apic, |word| {
        format!("{} takes the host's APICs away", word.key)
    });
}

fn msi_off(options: &Options<'_>, outcome: &mut Outcome) {
    table(options, outcome, Takes::Messages, |_| {
        "without MSI no device interrupt can be posted".into()
    });
}

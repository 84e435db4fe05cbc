//! Rules about parameters of `kvm`, `kvm_amd` and `kvm_intel`, in modprobe.d and on the kernel
//! command line.

use super::change::Change;
use super::rule::{AMD, BOTH, Check, Kernels, Rule, Versions};
use super::{Options, Outcome};
use crate::configuration::Kind;
use crate::configuration::module_options::ModuleOption;
use crate::feature::{AMD_MODULE, Feature, INTEL_MODULE, parameter_named, vendor_of_module};
use crate::finding::Severity;
use crate::host::KernelFeature;
use crate::inhibit::Vendor;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "AV101",
        name: "avic-not-enabled",
        severity: Severity::Error,
        vendors: AMD,
        kernels: Kernels::before(KernelFeature::AvicByDefault),
        qemu: Versions::ALL,
        summary: "A kernel before 6.18 is told to use AVIC",
        explanation: "
Up to Linux 6.17 `kvm_amd.avic` is off by default. From 6.18 on it is automatic: on for CPUs with x2AVIC from Zen 4 on. Where the
module's options are set at all, `avic=1` belongs among them. It needs a CPU that has AVIC: `avicenna check` says.",
        bad: "options kvm_amd nested=0",
        good: "options kvm_amd nested=0 avic=1",
        unknown: "GRUB_CMDLINE_LINUX=\"kvm_amd.nested=0 $MORE\"",
        example_kernel: "6.12",
        example_qemu: "",
        is_fixable: true,
        sources: &["Linux 6.18 arch/x86/kvm/svm/avic.c, commit ca2967de5a5b"],
        check: Check::Options(avic_not_enabled),
    },
    Rule {
        id: "AV102",
        name: "feature-off",
        severity: Severity::Error,
        vendors: BOTH,
        kernels: Kernels::ALL,
        qemu: Versions::ALL,
        summary: "AVIC and APICv are not switched off by a parameter",
        explanation: "
`kvm_amd avic=0` and `kvm_intel enable_apicv=0` switch the feature off for every virtual machine (inhibit `DISABLED`). They are often
left over from bugs long fixed: AVIC with device assignment in 5.6 (bugzilla 206579), APICv with device assignment (bugzilla
207489), APICv with Windows guests in 5.18 and 5.19. The parameters are read when the module loads; writing to the files in
`/sys/module` is refused.

What such a load clears in `kvm` stays: `enable_apicv` (Intel), `enable_device_posted_irqs` from 6.16 and `enable_ipiv` from 6.17 on read
`N` until `kvm` itself is loaded again, or the option is given as 1. So take both out: `modprobe -r kvm_amd kvm && modprobe kvm_amd`.",
        bad: "options kvm_intel enable_apicv=0",
        good: "options kvm_intel enable_apicv=1",
        unknown: "GRUB_CMDLINE_LINUX=\"kvm_amd.avic=$AVIC\"",
        example_kernel: "",
        example_qemu: "",
        is_fixable: true,
        sources: &[
            "Linux 6.12 arch/x86/kvm/svm/svm.c, avic",
            "Linux 6.12 arch/x86/kvm/vmx/vmx.c, enable_apicv",
            "Linux 6.17 arch/x86/kvm/x86.c, enable_ipiv, commit d921665e01ba",
        ],
        check: Check::Options(feature_off),
    },
    Rule {
        id: "AV103",
        name: "parameter-of-other-module",
        severity: Severity::Warning,
        vendors: BOTH,
        kernels: Kernels::ALL,
        qemu: Versions::ALL,
        summary: "Each parameter is one of the module it is given to",
        explanation: "
`enable_apicv`, `ept`, `vpid` and `unrestricted_guest` belong to `kvm_intel`; `avic`, `npt` and `vgif` to `kvm_amd`; neither to `kvm`. The
kernel says `unknown parameter … ignored` in its log, and nothing changes. The counterpart of `enable_apicv` on AMD is `avic`.",
        bad: "options kvm_amd avic=1 enable_apicv=1",
        good: "options kvm_amd avic=1",
        unknown: "GRUB_CMDLINE_LINUX=\"kvm_amd.avic=1 $MORE\"",
        example_kernel: "",
        example_qemu: "",
        is_fixable: true,
        sources: &["Linux 7.3 arch/x86/kvm/svm/svm.c and vmx/vmx.c, module_param"],
        check: Check::Options(parameter_of_other_module),
    },
    Rule {
        id: "AV104",
        name: "npt-off",
        severity: Severity::Error,
        vendors: AMD,
        kernels: Kernels::ALL,
        qemu: Versions::ALL,
        summary: "Nested paging is on, which AVIC needs",
        explanation: "
AVIC redirects the guest's APIC page through nested page tables. With `kvm_amd npt=0` KVM does not use AVIC at all, and
everything else is slower too. Old guides for Windows and macOS guests still recommend it.",
        bad: "options kvm_amd avic=1 npt=0",
        good: "options kvm_amd avic=1 npt=1",
        unknown: "GRUB_CMDLINE_LINUX=\"kvm_amd.npt=$NPT\"",
        example_kernel: "",
        example_qemu: "",
        is_fixable: true,
        sources: &["Linux 6.12 arch/x86/kvm/svm/avic.c, avic_hardware_setup"],
        check: Check::Options(npt_off),
    },
    Rule {
        id: "AV105",
        name: "nested-parameter-on-old-kernel",
        severity: Severity::Warning,
        vendors: AMD,
        kernels: Kernels::before(KernelFeature::NestedPerVcpu),
        qemu: Versions::ALL,
        summary: "A kernel before 5.19 with AVIC does not offer nested virtualization",
        explanation: "
Up to Linux 5.18 a guest that sees SVM never gets AVIC (AV006). With `nested=0` no guest sees it, whatever its CPU
model; otherwise each virtual machine has to hide it with `svm=off`.",
        bad: "options kvm_amd avic=1 nested=1",
        good: "options kvm_amd avic=1 nested=0",
        unknown: "GRUB_CMDLINE_LINUX=\"kvm_amd.nested=$NESTED\"",
        example_kernel: "5.18",
        example_qemu: "",
        is_fixable: true,
        sources: &["Linux 5.18 arch/x86/kvm/svm/svm.c, svm_vcpu_after_set_cpuid"],
        check: Check::Options(nested_on_old_kernel),
    },
    Rule {
        id: "AV106",
        name: "force-avic",
        severity: Severity::Warning,
        vendors: AMD,
        kernels: Kernels::from(KernelFeature::ForceAvic),
        qemu: Versions::ALL,
        summary: "AVIC is not forced on a CPU that does not announce it",
        explanation: "
`force_avic=1` ignores a missing CPUID bit and taints the kernel. Where firmware or AMD hides AVIC, as on most Zen 3, it is hidden for
a reason that need not show at once: lost interrupts and guests that hang. Where CPUID shows AVIC it does nothing.",
        bad: "options kvm_amd avic=1 force_avic=1",
        good: "options kvm_amd avic=1",
        unknown: "GRUB_CMDLINE_LINUX=\"kvm_amd.force_avic=$FORCE\"",
        example_kernel: "",
        example_qemu: "",
        is_fixable: true,
        sources: &["Linux 6.1 arch/x86/kvm/svm/avic.c, avic_hardware_setup"],
        check: Check::Options(force_avic),
    },
    Rule {
        id: "AV107",
        name: "ipi-virtualization-off",
        severity: Severity::Warning,
        vendors: BOTH,
        kernels: Kernels::ALL,
        qemu: Versions::ALL,
        summary: "IPI virtualization is not switched off by a parameter",
        explanation: "
With `enable_ipiv=0` AVIC and APICv stay on, and yet every IPI to another vCPU is an exit. The parameter exists in `kvm_intel` from
6.0 and in `kvm_amd` from 6.17 on. Zen 1, Zen 2 and Hygon's parts need it off for erratum 1235, and newer kernels see
to that by themselves.",
        bad: "options kvm_intel enable_ipiv=0",
        good: "options kvm_intel enable_ipiv=1",
        unknown: "GRUB_CMDLINE_LINUX=\"kvm_intel.enable_ipiv=$IPIV\"",
        example_kernel: "",
        example_qemu: "",
        is_fixable: true,
        sources: &[
            "Linux 6.0 arch/x86/kvm/vmx/vmx.c, enable_ipiv",
            "Linux 6.17 arch/x86/kvm/svm/avic.c, commit 8de4a1c8164e",
        ],
        check: Check::Options(ipiv_off),
    },
    Rule {
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
        check: Check::Options(device_posting_off),
    },
    Rule {
        id: "AV109",
        name: "parameter-newer-than-kernel",
        severity: Severity::Warning,
        vendors: BOTH,
        kernels: Kernels::before(KernelFeature::AmdIpiv),
        qemu: Versions::ALL,
        summary: "The kernel knows each parameter",
        explanation: "
A parameter that the running kernel does not know yet is ignored with a line in its log. `force_avic` came with 5.19,
`enable_ipiv` with 6.0 (`kvm_intel`) and 6.17 (`kvm_amd`), `enable_device_posted_irqs` with 6.16. Kernels of distributions may carry
them earlier.",
        bad: "options kvm_amd avic=1 enable_ipiv=1",
        good: "options kvm_amd avic=1",
        unknown: "GRUB_CMDLINE_LINUX=\"kvm_amd.avic=1 $MORE\"",
        example_kernel: "6.12",
        example_qemu: "",
        is_fixable: true,
        sources: &["Linux 5.19, 6.16 and 6.17 arch/x86/kvm, module_param"],
        check: Check::Options(newer_than_kernel),
    },
    Rule {
        id: "AV110",
        name: "contradictory-parameter",
        severity: Severity::Warning,
        vendors: BOTH,
        kernels: Kernels::ALL,
        qemu: Versions::ALL,
        summary: "Each parameter is given once, or always the same",
        explanation: "
Of several values for one parameter the last one counts, and the order of modprobe.d files and of boot loader variables is easily
misjudged.",
        bad: "options kvm_amd avic=1 nested=1\noptions kvm_amd nested=0",
        good: "options kvm_amd avic=1",
        unknown: "GRUB_CMDLINE_LINUX=\"kvm_amd.avic=1 kvm_amd.avic=$AVIC\"",
        example_kernel: "",
        example_qemu: "",
        is_fixable: false,
        sources: &["Linux 6.12 kernel/params.c, parse_args"],
        check: Check::Options(contradictory),
    },
    Rule {
        id: "AV111",
        name: "invalid-value",
        severity: Severity::Error,
        vendors: BOTH,
        kernels: Kernels::ALL,
        qemu: Versions::ALL,
        summary: "Each value is one that the parameter takes",
        explanation: "
Parameters that are switches take 1, 0, y, n, on and off; `avic` also takes `auto` from 6.18 on. With any other value the module does not load: no
virtual machine starts.",
        bad: "options kvm_amd avic=enabled",
        good: "options kvm_amd avic=1",
        unknown: "GRUB_CMDLINE_LINUX=\"kvm_amd.avic=$AVIC\"",
        example_kernel: "",
        example_qemu: "",
        is_fixable: false,
        sources: &["Linux 6.12 lib/kstrtox.c, kstrtobool", "Linux 6.18 arch/x86/kvm/svm/avic.c, avic_param_set"],
        check: Check::Options(invalid_value),
    },
];

const AMD_ONLY: [&str; 12] = [
    "avic",
    "force_avic",
    "npt",
    "nrips",
    "vls",
    "vgif",
    "lbrv",
    "sev",
    "sev_es",
    "sev_snp",
    "tsc_scaling",
    "pause_filter_count",
];
const INTEL_ONLY: [&str; 14] = [
    "enable_apicv",
    "ept",
    "eptad",
    "vpid",
    "unrestricted_guest",
    "flexpriority",
    "pml",
    "ple_gap",
    "ple_window",
    "preemption_timer",
    "emulate_invalid_guest_state",
    "fasteoi",
    "enable_shadow_vmcs",
    "tdx",
];
/// Switches of these modules that rules read.
const SWITCHES: [&str; 6] =
    ["avic", "force_avic", "npt", "enable_apicv", "enable_ipiv", "enable_device_posted_irqs"];

/// The kernel's reading of a switch; a name alone is a yes.
pub(super) fn switch(option: &ModuleOption) -> Option<bool> {
    match option.value.as_deref() {
        None => Some(true),
        Some("1" | "y" | "Y" | "t" | "T" | "on" | "ON" | "On") => Some(true),
        Some("0" | "n" | "N" | "f" | "F" | "off" | "OFF" | "Off") => Some(false),
        Some(_) => None,
    }
}

fn is_open(option: &ModuleOption) -> bool {
    let has_variable = |text: &str| text.contains(['$', '`']);
    has_variable(&option.name) || option.value.as_deref().is_some_and(has_variable)
}

/// Says that variables may hold what the rule looks for, if there are any.
pub(super) fn open_words(options: &Options<'_>, outcome: &mut Outcome) {
    if !outcome.found.is_empty() {
        return;
    }
    if let Some(open) = options.contents.options.iter().find(|option| is_open(option)) {
        let text = open.value.as_deref().filter(|value| value.contains('$')).unwrap_or(&open.name);
        outcome.undecided(Some(open.at), format!("{text} is not known here"));
    }
}

/// Reports every option that fits, and open words if none does.
fn each(
    options: &Options<'_>,
    outcome: &mut Outcome,
    violated: impl Fn(&ModuleOption, &mut Outcome),
) {
    for option in options.contents.options.iter().filter(|option| !is_open(option)) {
        // A rule for one vendor has nothing to say about the other's module.
        let concerns =
            vendor_of_module(&option.module).is_none_or(|vendor| options.vendors.contains(&vendor));
        if concerns && option.module.starts_with("kvm") {
            violated(option, outcome);
        }
    }
    open_words(options, outcome);
}

fn full_name(option: &ModuleOption, kind: Kind) -> String {
    if kind == Kind::Modprobe {
        option.name.clone()
    } else {
        format!("{}.{}", option.module, option.name)
    }
}

fn set(option: &ModuleOption, kind: Kind, value: &'static str) -> Change {
    let name = full_name(option, kind);
    Change::SetOption { at: option.at, value_at: option.value_at, name, value }
}

fn remove(option: &ModuleOption, kind: Kind) -> Change {
    Change::RemoveOption { at: option.at, name: full_name(option, kind) }
}

fn concerned(option: &ModuleOption) -> Vec<Vendor> {
    vendor_of_module(&option.module).into_iter().collect()
}

fn avic_not_enabled(options: &Options<'_>, outcome: &mut Outcome) {
    let mut of_module =
        options.contents.options.iter().filter(|option| option.module == AMD_MODULE);
    let Some(first) = of_module.clone().next() else { return open_words(options, outcome) };
    let is_avic = |option: &ModuleOption| option.module == AMD_MODULE && option.name == "avic";
    if of_module.any(is_avic) || options.elsewhere.iter().any(is_avic) {
        return;
    }
    if options.contents.options.iter().any(is_open) {
        return open_words(options, outcome);
    }
    let last = options
        .contents
        .options
        .iter()
        .rfind(|option| option.module == AMD_MODULE)
        .unwrap_or(first);
    outcome
        .violated(
            Some(first.at),
            "kvm_amd has options but not avic=1, and AVIC is off by default before 6.18",
        )
        .mended_by(Change::AddOption {
            after: last.at,
            module: AMD_MODULE.into(),
            option: "avic=1",
        });
}

fn feature_off(options: &Options<'_>, outcome: &mut Outcome) {
    each(options, outcome, |option, outcome| {
        let Some(vendor) = vendor_of_module(&option.module) else { return };
        let feature = Feature::of_vendor(vendor);
        if feature.parameter().name == option.name && switch(option) == Some(false) {
            outcome
                .violated(
                    Some(option.at),
                    format!("{feature} is switched off for every virtual machine"),
                )
                .on(concerned(option))
                .mended_by(set(option, options.contents.kind, "1"))
                .inhibiting(crate::inhibit::Reason::Disabled);
        }
    });
}

fn parameter_of_other_module(options: &Options<'_>, outcome: &mut Outcome) {
    each(options, outcome, |option, outcome| {
        let name = option.name.as_str();
        let owner = match option.module.as_str() {
            AMD_MODULE if INTEL_ONLY.contains(&name) => INTEL_MODULE,
            INTEL_MODULE if AMD_ONLY.contains(&name) => AMD_MODULE,
            "kvm" if INTEL_ONLY.contains(&name) => INTEL_MODULE,
            "kvm" if AMD_ONLY.contains(&name) => AMD_MODULE,
            _ => return,
        };
        let message = format!("{name} is a parameter of {owner}: {} ignores it", option.module);
        outcome
            .violated(Some(option.at), message)
            .on(concerned(option))
            .mended_by(remove(option, options.contents.kind));
    });
}

fn npt_off(options: &Options<'_>, outcome: &mut Outcome) {
    each(options, outcome, |option, outcome| {
        if option.module == AMD_MODULE && option.name == "npt" && switch(option) == Some(false) {
            outcome
                .violated(Some(option.at), "without nested paging KVM does not use AVIC")
                .mended_by(set(option, options.contents.kind, "1"));
        }
    });
}

fn nested_on_old_kernel(options: &Options<'_>, outcome: &mut Outcome) {
    each(options, outcome, |option, outcome| {
        if option.module == AMD_MODULE && option.name == "nested" && switch(option) == Some(true) {
            outcome
                .violated(
                    Some(option.at),
                    "with nested=1 a guest that sees SVM gets no AVIC on this kernel",
                )
                .mended_by(set(option, options.contents.kind, "0"));
        }
    });
}

fn force_avic(options: &Options<'_>, outcome: &mut Outcome) {
    each(options, outcome, |option, outcome| {
        if option.module == AMD_MODULE
            && option.name == "force_avic"
            && switch(option) == Some(true)
        {
            outcome
                .violated(
                    Some(option.at),
                    "force_avic uses AVIC where the CPU does not announce it",
                )
                .mended_by(remove(option, options.contents.kind));
        }
    });
}

fn ipiv_off(options: &Options<'_>, outcome: &mut Outcome) {
    each(options, outcome, |option, outcome| {
        if option.name == "enable_ipiv" && switch(option) == Some(false) {
            outcome
                .violated(Some(option.at), "IPIs between vCPUs exit, though AVIC or APICv is on")
                .on(concerned(option))
                .mended_by(set(option, options.contents.kind, "1"));
        }
    });
}

fn device_posting_off(options: &Options<'_>, outcome: &mut Outcome) {
    each(options, outcome, |option, outcome| {
        if option.name == "enable_device_posted_irqs" && switch(option) == Some(false) {
            outcome
                .violated(Some(option.at), "interrupts of passed-through devices are not posted")
                .on(concerned(option))
                .mended_by(set(option, options.contents.kind, "1"));
        }
    });
}

fn newer_than_kernel(options: &Options<'_>, outcome: &mut Outcome) {
    let Some(kernel) = options.kernel else { return };
    each(options, outcome, |option, outcome| {
        let Some(vendor) = vendor_of_module(&option.module) else { return };
        let since = match (option.module.as_str(), option.name.as_str()) {
            (AMD_MODULE, "force_avic") => Some(KernelFeature::ForceAvic),
            (_, name) => parameter_named(vendor, name).and_then(|parameter| parameter.since),
        };
        let Some(since) = since else { return };
        let (name, version) = (&option.name, since.since());
        let message = format!("{name} came with Linux {version}");
        match kernel.has(since) {
            Some(true) => {}
            Some(false) => {
                let kernel = kernel.numbers();
                outcome
                    .violated(Some(option.at), format!("{message}; {kernel} ignores it"))
                    .on(concerned(option))
                    .mended_by(remove(option, options.contents.kind));
            }
            None => {
                let release = &kernel.release;
                outcome.undecided(
                    Some(option.at),
                    format!(
                        "{message}; whether {release} has it is not known, its number does not tell"
                    ),
                );
            }
        }
    });
}

fn contradictory(options: &Options<'_>, outcome: &mut Outcome) {
    let all = &options.contents.options;
    each(options, outcome, |option, outcome| {
        let same =
            |other: &&ModuleOption| other.module == option.module && other.name == option.name;
        let Some(last) = all.iter().rfind(same) else { return };
        let reads_same = last.value == option.value
            || (switch(last).is_some() && switch(last) == switch(option));
        if last.at != option.at && !is_open(last) && !reads_same {
            let value = last.value.as_deref().unwrap_or("1");
            let message = format!(
                "{} is given again on line {} as {value}, which counts",
                option.name, last.at.line
            );
            outcome.violated(Some(option.at), message).on(concerned(option));
        }
    });
}

fn invalid_value(options: &Options<'_>, outcome: &mut Outcome) {
    let has_auto =
        options.kernel.is_none_or(|kernel| kernel.has(KernelFeature::AvicByDefault) != Some(false));
    each(options, outcome, |option, outcome| {
        let name = option.name.as_str();
        let is_switch = SWITCHES.contains(&name) && vendor_of_module(&option.module).is_some();
        let is_auto = name == "avic" && has_auto && matches!(option.value.as_deref(), Some("auto"));
        if is_switch && !is_auto && switch(option).is_none() {
            let value = option.value.as_deref().unwrap_or_default();
            let message =
                format!("'{value}' is no value for {name}: {} does not load", option.module);
            outcome.violated(Some(option.at), message).on(concerned(option));
        }
    });
}

//! VFIO is not told to do without interrupt remapping.

use crate::finding::Severity;
use crate::lint::decision::module::{is_open, open_words_of, remove, switch};
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Options;

pub const RULE: Rule = Rule {
    id: "AV112",
    name: "unsafe-interrupts",
    severity: Severity::Warning,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "VFIO is not told to do without interrupt remapping",
    explanation: "
`allow_unsafe_interrupts=1` lets VFIO pass devices to guests where interrupts are not remapped. Guides give it as the answer to
`No interrupt remapping support` in the kernel's log. But only an interrupt that is remapped can be posted to a vCPU, so none of the
device's interrupts is, whatever the processor and KVM could do; and the guest that owns the device can send the host any
interrupt. Where remapping is on the option does nothing, but hides that it is gone after the next change of firmware or command line.

Switch remapping on instead: the IOMMU (AMD-Vi, VT-d) in the firmware's setup, and no `intremap=off` or `iommu=off` on the kernel command
line. `avicenna check` says which unit lacks it.",
    bad: "options vfio_iommu_type1 allow_unsafe_interrupts=1",
    good: "options vfio_iommu_type1 allow_unsafe_interrupts=0",
    unknown: "GRUB_CMDLINE_LINUX=\"vfio_iommu_type1.allow_unsafe_interrupts=$UNSAFE\"",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &[
        "Linux 6.12 drivers/vfio/vfio_iommu_type1.c, allow_unsafe_interrupts",
        "Linux 6.12 drivers/iommu/iommufd/device.c, allow_unsafe_interrupts",
    ],
    check: Check::Options(check),
};

/// Modules that have the parameter: VFIO's own, and what newer VMMs use in its place.
const MODULES: [&str; 2] = ["vfio_iommu_type1", "iommufd"];

fn check(options: &Options<'_>, outcome: &mut Outcome) {
    for option in options.given.iter().filter(|option| !is_open(option)) {
        let is_it =
            MODULES.contains(&option.module.as_str()) && option.name == "allow_unsafe_interrupts";
        if is_it && switch(option) == Some(true) {
            outcome
                .violated(
                    Some(option.at),
                    "VFIO may pass devices through without interrupt remapping, where none of their interrupts can be posted",
                )
                .repaired_by(remove(option, options.kind));
        }
    }
    open_words_of(options, outcome, |module| MODULES.contains(&module));
}

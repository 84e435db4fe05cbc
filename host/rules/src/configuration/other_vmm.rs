//! Command lines of VMMs other than QEMU, as far as they decide interrupts.
//!
//! Sources: Firecracker 1.x `src/vmm/src/arch/x86_64` (in-kernel irqchip and `create_pit2`, never
//! reinject control), crosvm `hypervisor/src/kvm` (the same unless `--split-irqchip`),
//! cloud-hypervisor (split, no PIT; `kvm_hyperv`), kvmtool `x86/kvm.c` (KVM_CREATE_PIT2, never
//! reinject control). Left out: everything that cannot change the answer.

use super::qemu_program::{is_of_other_language, is_spoken_of};
use super::shell::{Command, Word};
use crate::finding::Position;
use crate::position::Lines;
use crate::vm::{Guest, Irqchip, Passthrough, Pit, Setting, VmConfiguration, Vmm};
use reading::version::Version;

/// The machine a command starts, if its program is one of these.
pub fn machine(command: &Command<'_>, file: &str, lines: &Lines<'_>) -> Option<VmConfiguration> {
    let (index, vmm) = command.words.iter().enumerate().find_map(|(index, word)| {
        let name = word.text.rsplit('/').next().unwrap_or_default();
        let vmm = match name {
            "firecracker" | "jailer" => Vmm::Firecracker,
            "crosvm" => Vmm::Crosvm,
            "lkvm" | "lkvm-static" | "kvmtool" => Vmm::Kvmtool,
            _ if is_of_other_language(name) => return None,
            _ if name.starts_with("cloud-hypervisor") => Vmm::CloudHypervisor,
            _ => return None,
        };
        Some((index, vmm))
    })?;
    let rest = &command.words[index + 1..];
    let starts_machine = match vmm {
        Vmm::Crosvm => rest.iter().any(|word| word.text == "run"),
        Vmm::Kvmtool => rest.first().is_some_and(|word| word.text == "run"),
        _ => rest.first().is_some_and(|word| word.text.starts_with('-')),
    };
    if !starts_machine || is_spoken_of(&command.words, index, false) {
        return None;
    }
    let first = &command.words[index];
    let last = command.words.last()?;
    let span = lines.position(first.raw.start, last.raw.end);
    let mut vm = VmConfiguration::defaults(vmm, file, span);
    apply_defaults(&mut vm);
    if vmm == Vmm::CloudHypervisor {
        vm.vmm_version = version_in(&first.text);
    }
    for (index, word) in rest.iter().enumerate() {
        let (name, value) = match word.text.split_once('=') {
            Some((name, value)) if name.starts_with('-') => (name, Some(value.to_owned())),
            _ => (word.text.as_ref(), rest.get(index + 1).map(|next| next.text.to_string())),
        };
        apply(&mut vm, name, value.as_deref(), word, lines);
    }
    Some(vm)
}

/// `…/cloud-hypervisor-v52.0/…`: releases carry their number in the name.
fn version_in(program: &str) -> Option<Version> {
    let (_, rest) = program.split_once("cloud-hypervisor-v")?;
    Version::parse(rest)
}

/// `kvm_hyperv=on` offers SynIC and synthetic timers; from v53 on with the recommendation against
/// AutoEOI.
pub(super) fn cloud_hypervisor_hyperv(vm: &mut VmConfiguration, at: Position) {
    vm.hyperv.synic = Some(Setting::written(true, at));
    vm.hyperv.stimer = Some(Setting::implied(true, at, "kvm_hyperv=on offers it"));
    vm.hyperv.vpindex = Some(Setting::implied(true, at, "kvm_hyperv=on offers it"));
    vm.guest = Setting::implied(Guest::Windows, at, "kvm_hyperv=on is for Windows");
    let recommends = vm.vmm_version.is_some_and(|version| version >= RECOMMENDS_AGAINST_AUTO_EOI);
    vm.hyperv.avic = Some(Setting::implied(recommends, at, "recommended from v53 on"));
}

/// The first cloud-hypervisor that does.
const RECOMMENDS_AGAINST_AUTO_EOI: Version = Version::new(53, 0, 0);

/// What each VMM does when nothing is written.
pub fn apply_defaults(vm: &mut VmConfiguration) {
    let (irqchip, pit, reason) = match vm.vmm {
        Vmm::Firecracker => (
            Irqchip::Kernel,
            Pit::KernelReinject,
            "Firecracker creates KVM's PIT and never switches reinjection off",
        ),
        Vmm::Crosvm => (
            Irqchip::Kernel,
            Pit::KernelReinject,
            "crosvm creates KVM's PIT and never switches reinjection off",
        ),
        Vmm::Kvmtool => (
            Irqchip::Kernel,
            Pit::KernelReinject,
            "kvmtool creates KVM's PIT and never switches reinjection off",
        ),
        Vmm::CloudHypervisor => {
            (Irqchip::Split, Pit::Absent, "cloud-hypervisor splits the irqchip and has no PIT")
        }
        Vmm::Qemu => return,
    };
    vm.irqchip = Setting::by_default(irqchip, reason);
    vm.pit = Setting::by_default(pit, reason);
    vm.hpet = Setting::by_default(false, "not emulated");
    vm.msi_ext_dest_id = Setting::by_default(false, "not offered");
    vm.guest = Setting::by_default(Guest::Unknown, "nothing tells");
}

/// What is loaded in place of a kernel may be firmware, which boots anything.
pub(super) fn boots_kernel(vm: &mut VmConfiguration, path: Option<&str>, at: Position) {
    let is_firmware =
        path.is_some_and(|path| path.ends_with(".fd") || path.contains("hypervisor-fw"));
    if !is_firmware && vm.guest.value == Guest::Unknown {
        vm.guest = Setting::implied(Guest::Linux, at, "a kernel is loaded directly");
    }
}

fn apply(
    vm: &mut VmConfiguration,
    name: &str,
    value: Option<&str>,
    word: &Word<'_>,
    lines: &Lines<'_>,
) {
    let at = lines.position(word.raw.start, word.raw.end);
    match (vm.vmm, name) {
        (Vmm::Crosvm, "--split-irqchip") => {
            vm.irqchip = Setting::written(Irqchip::Split, at);
            vm.pit = Setting::implied(Pit::UserSpace, at, "crosvm emulates the PIT then");
        }
        (Vmm::Crosvm, "--irqchip") if value.is_some_and(|chip| chip.contains("split")) => {
            vm.irqchip = Setting::written(Irqchip::Split, at);
            vm.pit = Setting::implied(Pit::UserSpace, at, "crosvm emulates the PIT then");
        }
        (Vmm::Crosvm | Vmm::CloudHypervisor | Vmm::Kvmtool, "--cpus" | "-c") => {
            let has_hyperv = |text: &str| text.split(',').any(|part| part == "kvm_hyperv=on");
            if vm.vmm == Vmm::CloudHypervisor && value.is_some_and(has_hyperv) {
                cloud_hypervisor_hyperv(vm, at);
            }
            // `4`, `num-cores=4`, `boot=4,max=600`.
            let number = |keys: &[&str]| {
                let mut parts = value?.split(',');
                parts.find_map(|part| {
                    let (key, text) = part.split_once('=').unwrap_or(("", part));
                    let count = text.parse::<u32>().ok().filter(|count| *count > 0)?;
                    keys.contains(&key).then_some(count)
                })
            };
            if let Some(count) = number(&["", "boot", "num-cores"]) {
                let most = number(&["max"]).unwrap_or(count).max(count);
                vm.vcpus = Setting::written(count, at);
                vm.max_vcpus = Setting::written(most, at);
                vm.max_apic_id = Setting::written(most - 1, at);
            }
        }
        (Vmm::Crosvm, "--vfio")
        | (Vmm::CloudHypervisor, "--device")
        | (Vmm::Kvmtool, "--vfio-pci") => {
            vm.passthrough.push(Passthrough { driver: name.to_owned(), at, bypasses: Vec::new() });
        }
        (_, "--kernel") | (Vmm::Kvmtool, "-k") => boots_kernel(vm, value, at),
        _ => {}
    }
}

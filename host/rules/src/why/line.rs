//! The one line that avoids an inhibit, in the words of the program that owns the machine's
//! configuration.
//!
//! QEMU: `qemu-options.hx`, docs/system/i386/hyperv.rst. libvirt: formatdomain ("Time keeping",
//! "Hypervisor features"). Proxmox: qm.conf(5). KubeVirt: API reference v1. Firecracker, crosvm and
//! cloud-hypervisor: their own options, where they have one.

use crate::configuration::dialect::proxmox::entries;
use crate::finding::{Fix, Needs};
use crate::inhibit::Reason;
use crate::vm::{LARGEST_XAPIC_ID, Manager, VmConfiguration, Vmm};
use reading::{ConfigurationFile, RunningVm};

/// The change, or `None` where none exists.
pub fn change(
    reason: Reason,
    configuration: &VmConfiguration,
    vm: &RunningVm,
    definitions: &[ConfigurationFile],
) -> Option<Fix> {
    // What is above is out of reach without x2APIC.
    if reason == Reason::X2apic && configuration.max_apic_id.value > LARGEST_XAPIC_ID {
        return Some(Fix::new("host kernel 6.0 or later", Needs::Reboot));
    }
    let name = vm.name.as_deref().unwrap_or("NAME");
    let restart = |line: String| Some(Fix::new(line, Needs::VmRestart));
    match (configuration.vmm, configuration.manager) {
        (Vmm::Qemu, Manager::Libvirt) => {
            restart(format!("virsh edit {name}: {}", libvirt(reason)?))
        }
        (Vmm::Qemu, Manager::Proxmox) => restart(proxmox(reason, vm, definitions)?),
        (Vmm::Qemu, Manager::KubeVirt) => restart(kubevirt(reason)?.to_string()),
        (Vmm::Qemu, Manager::None) => restart(qemu(reason)?.to_string()),
        (Vmm::Crosvm, _) => match reason {
            Reason::PitReinject => restart("crosvm run --split-irqchip".into()),
            _ => None,
        },
        (Vmm::CloudHypervisor, _) => match reason {
            Reason::Hyperv => restart("cloud-hypervisor v53 or later".into()),
            _ => None,
        },
        // They have no option for their PIT.
        (Vmm::Firecracker | Vmm::Kvmtool, _) => None,
    }
}

/// Options that change one thing and leave the rest of the command line as it is.
fn qemu(reason: Reason) -> Option<&'static str> {
    Some(match reason {
        Reason::PitReinject => "-global kvm-pit.lost_tick_policy=discard",
        Reason::Hyperv => "hv-avic=on added to -cpu (QEMU 6.2 and later)",
        Reason::Absent => "kernel-irqchip=split instead of kernel-irqchip=off in -machine",
        Reason::X2apic => "x2apic=off added to -cpu, or host kernel 6.0 and later",
        Reason::Nested => "svm=off added to -cpu, or host kernel 5.19 and later",
        Reason::PhysicalIdTooBig => "fewer vCPUs in -smp, maxcpus included",
        Reason::Blockirq => "no -gdb and no -s",
        _ => return None,
    })
}

fn libvirt(reason: Reason) -> Option<&'static str> {
    Some(match reason {
        Reason::PitReinject => "<timer name='pit' tickpolicy='discard'/> in <clock>",
        Reason::Hyperv => "<avic state='on'/> in <features><hyperv> (libvirt 8.10 and later)",
        Reason::Absent => "<ioapic driver='qemu'/> in <features>",
        Reason::X2apic => {
            "<feature policy='disable' name='x2apic'/> in <cpu>, or host kernel 6.0 and later"
        }
        Reason::Nested => {
            "<feature policy='disable' name='svm'/> in <cpu>, or host kernel 5.19 and later"
        }
        Reason::PhysicalIdTooBig => "a smaller <vcpu>",
        _ => return None,
    })
}

fn proxmox(reason: Reason, vm: &RunningVm, definitions: &[ConfigurationFile]) -> Option<String> {
    let mut words = vm.arguments.iter();
    let id =
        words.find(|word| *word == "-id").and_then(|_| words.next()).map_or("VMID", String::as_str);
    let arguments = match reason {
        Reason::PitReinject => "-global kvm-pit.lost_tick_policy=discard",
        Reason::PhysicalIdTooBig => {
            return Some(format!("qm set {id} --cores N, fewer than now"));
        }
        // Proxmox writes -cpu itself: what it lacks has to be repeated whole.
        Reason::Hyperv => "-cpu MODEL,hv-avic=on,… (the whole of what it has now)",
        Reason::X2apic => "-cpu MODEL,x2apic=off,… (the whole of what it has now)",
        Reason::Nested => "-cpu MODEL,svm=off,… (the whole of what it has now)",
        Reason::Absent => "-machine kernel-irqchip=split",
        _ => return None,
    };
    Some(with_arguments(id, arguments, definitions))
}

/// `--args` replaces the whole line: what it has now has to be said again.
fn with_arguments(id: &str, arguments: &str, definitions: &[ConfigurationFile]) -> String {
    let name = format!("/{id}.conf");
    let file = definitions
        .iter()
        .find(|file| file.path.contains("/qemu-server/") && file.path.ends_with(&name));
    let Some(file) = file else {
        return format!(
            "qm set {id} --args '… {arguments}', with what qm config {id} has as args now in front"
        );
    };
    let present =
        entries(&file.text).find(|entry| entry.key == "args").map(|entry| entry.value.trim());
    match present {
        None | Some("") => format!("qm set {id} --args '{arguments}'"),
        Some(present) if present.contains('\'') => {
            format!("add {arguments} to the line args of {}", file.path)
        }
        Some(present) => format!("qm set {id} --args '{present} {arguments}'"),
    }
}

fn kubevirt(reason: Reason) -> Option<&'static str> {
    Some(match reason {
        Reason::PitReinject => "spec.template.spec.domain.clock.timer.pit.tickPolicy: discard",
        Reason::PhysicalIdTooBig => "fewer spec.template.spec.domain.cpu.cores",
        Reason::X2apic => "spec.template.spec.domain.cpu.features: {name: x2apic, policy: disable}",
        Reason::Nested => "spec.template.spec.domain.cpu.features: {name: svm, policy: disable}",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_a_proxmox_machine_has_are_said_again() {
        let word = "-global kvm-pit.lost_tick_policy=discard";
        for (text, expected) in [
            ("cores: 2\n", format!("qm set 101 --args '{word}'")),
            (
                "args: -device vfio-pci,host=01:00.0 -cpu host\ncores: 2\n",
                format!("qm set 101 --args '-device vfio-pci,host=01:00.0 -cpu host {word}'"),
            ),
            (
                "args: -fw_cfg name='a b'\n",
                format!("add {word} to the line args of /etc/pve/qemu-server/101.conf"),
            ),
        ] {
            let path = "/etc/pve/qemu-server/101.conf".to_owned();
            let file = ConfigurationFile { path, text: text.into() };
            assert_eq!(with_arguments("101", word, &[file]), expected, "{text}");
        }
    }
}

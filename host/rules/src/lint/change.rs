//! What to change, independent of where it is written, and the line that says so for each VMM and
//! manager.

use crate::configuration::Kind;
use crate::finding::{Fix, Needs, Position};
use crate::vm::{Manager, VmConfiguration, Vmm};
use serde::Serialize;

/// Replaces `start..end` (bytes) of the input.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Edit {
    /// First byte that goes.
    pub start: usize,
    /// One past the last byte that goes.
    pub end: usize,
    /// What comes instead; empty to delete.
    pub replacement: String,
}

/// A change that mends a violation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Let the in-kernel PIT discard missed ticks.
    DiscardPitTicks,
    /// Only local APICs in the kernel.
    SplitIrqchip,
    /// Switch a Hyper-V enlightenment, named without `hv-`.
    HyperV(&'static str, bool),
    /// Switch a CPU feature.
    CpuFeature(&'static str, bool),
    /// Set a property of the guest's IOMMU to `on`.
    Viommu(&'static str),
    /// Take `KEY=VALUE` out of the option it is part of.
    RemovePair(Position),
    /// Set the value of a module or kernel parameter.
    SetOption {
        /// The whole `NAME=VALUE`.
        at: Position,
        /// The value only.
        value_at: Position,
        /// Of the parameter, as the input writes it.
        name: String,
        /// What it should be.
        value: &'static str,
    },
    /// Take a module or kernel parameter out.
    RemoveOption {
        /// The whole `NAME=VALUE`.
        at: Position,
        /// Of the parameter, as the input writes it.
        name: String,
    },
    /// Add a module parameter next to another of the same module.
    AddOption {
        /// The parameter behind which it goes.
        after: Position,
        /// The module of both.
        module: String,
        /// `NAME=VALUE` without the module.
        option: &'static str,
    },
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

impl Change {
    /// The one line for the machine's VMM and manager; `None` where none of its settings does it.
    pub fn advice(&self, vm: &VmConfiguration) -> Option<Fix> {
        let line = match vm.vmm {
            Vmm::Qemu => match vm.manager {
                Manager::None => self.qemu_line(),
                Manager::Libvirt => self.libvirt_line(),
                Manager::Proxmox => self.proxmox_line(),
                Manager::KubeVirt => self.kubevirt_line(),
            },
            Vmm::Crosvm => match self {
                Self::DiscardPitTicks | Self::SplitIrqchip => Some("--split-irqchip".to_owned()),
                _ => None,
            },
            Vmm::CloudHypervisor => match self {
                Self::HyperV("avic", true) => Some("cloud-hypervisor v53 or later".to_owned()),
                _ => None,
            },
            Vmm::Firecracker => None,
        }?;
        Some(Fix::new(line, Needs::VmRestart))
    }

    fn qemu_line(&self) -> Option<String> {
        Some(match self {
            Self::DiscardPitTicks => "-global kvm-pit.lost_tick_policy=discard".to_owned(),
            Self::SplitIrqchip => "-machine kernel-irqchip=split".to_owned(),
            Self::HyperV(name, on) => format!("-cpu …,hv-{name}={}", on_off(*on)),
            Self::CpuFeature(name, on) => format!("-cpu …,{name}={}", on_off(*on)),
            Self::Viommu(key) => format!("-device …,{key}=on"),
            Self::RemovePair(_) => "without it".to_owned(),
            Self::SetOption { .. } | Self::RemoveOption { .. } | Self::AddOption { .. } => {
                return None;
            }
        })
    }

    fn libvirt_line(&self) -> Option<String> {
        Some(match self {
            Self::DiscardPitTicks => "<clock> <timer name='pit' tickpolicy='discard'/>".to_owned(),
            Self::SplitIrqchip => "<features> <ioapic driver='qemu'/>".to_owned(),
            Self::HyperV(name, on) => {
                let name = name.replace('-', "_");
                format!("<features> <hyperv> <{name} state='{}'/>", on_off(*on))
            }
            Self::CpuFeature(name, on) => {
                let policy = if *on { "require" } else { "disable" };
                format!("<cpu> <feature policy='{policy}' name='{name}'/>")
            }
            Self::Viommu(key) => format!("<iommu> <driver {key}='on'/>"),
            Self::RemovePair(_) => "without it".to_owned(),
            Self::SetOption { .. } | Self::RemoveOption { .. } | Self::AddOption { .. } => {
                return None;
            }
        })
    }

    fn proxmox_line(&self) -> Option<String> {
        Some(match self {
            Self::DiscardPitTicks => "args: -global kvm-pit.lost_tick_policy=discard".to_owned(),
            Self::SplitIrqchip => "args: -machine kernel-irqchip=split".to_owned(),
            // qemu-server passes one -cpu; a second one in args replaces it whole.
            Self::HyperV(name, on) => {
                format!("args: -cpu …,hv-{name}={} (the whole -cpu of qm showcmd)", on_off(*on))
            }
            Self::CpuFeature(name, on) => {
                format!("args: -cpu …,{name}={} (the whole -cpu of qm showcmd)", on_off(*on))
            }
            Self::RemovePair(_) => "without it".to_owned(),
            _ => return None,
        })
    }

    fn kubevirt_line(&self) -> Option<String> {
        Some(match self {
            Self::DiscardPitTicks => "domain.clock.timer.pit.tickPolicy: discard".to_owned(),
            Self::HyperV("avic", true) => {
                "a sidecar hook that adds <avic state='on'/>; the API has no field for it"
                    .to_owned()
            }
            Self::HyperV(name, on) => format!("domain.features.hyperv.{name}.enabled: {on}"),
            Self::CpuFeature(name, on) => {
                let policy = if *on { "require" } else { "disable" };
                format!("domain.cpu.features: - {{name: {name}, policy: {policy}}}")
            }
            Self::SplitIrqchip => {
                "a sidecar hook that adds <ioapic driver='qemu'/>; the API has no field for it"
                    .to_owned()
            }
            _ => return None,
        })
    }

    /// The line for a host's parameter.
    pub fn option_advice(&self, kind: Kind) -> Option<Fix> {
        let needs = if kind == Kind::Modprobe { Needs::ModuleReload } else { Needs::Reboot };
        let line = match self {
            Self::SetOption { name, value, .. } => format!("{name}={value}"),
            Self::RemoveOption { name, .. } => format!("without {name}"),
            Self::AddOption { module, option, .. } if kind == Kind::Modprobe => {
                format!("options {module} {option}")
            }
            Self::AddOption { module, option, .. } => format!("{module}.{option}"),
            _ => return None,
        };
        Some(Fix::new(line, needs))
    }
}

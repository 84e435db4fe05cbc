//! What to change, independent of where it is written, and the line that says so for each VMM and
//! manager. Every match here and in the dialects names all changes: what a new one is to be in each
//! syntax, or that the syntax cannot say it, is asked by the compiler.

use super::input::Kind;
use crate::finding::{Fix, Needs, Position};
use crate::vm::{Manager, VmConfiguration, Vmm};

/// A change that repairs a violation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Of a machine.
    Machine(MachineChange),
    /// Of a host's parameters.
    Parameter(ParameterChange),
}

/// A change of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MachineChange {
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
}

/// A change of a host's parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ParameterChange {
    /// Set the value of a module or kernel parameter.
    Set {
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
    Remove {
        /// The whole `NAME=VALUE`.
        at: Position,
        /// Of the parameter, as the input writes it.
        name: String,
    },
    /// Add a module parameter next to another of the same module.
    Add {
        /// The parameter behind which it goes.
        after: Position,
        /// The module of both.
        module: String,
        /// `NAME=VALUE` without the module.
        option: &'static str,
    },
}

impl From<MachineChange> for Change {
    fn from(change: MachineChange) -> Self {
        Self::Machine(change)
    }
}

impl From<ParameterChange> for Change {
    fn from(change: ParameterChange) -> Self {
        Self::Parameter(change)
    }
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

impl MachineChange {
    /// The one line for the machine's VMM and manager; `None` where none of its settings does it.
    pub fn advice(&self, vm: &VmConfiguration) -> Option<Fix> {
        let line = match vm.vmm {
            Vmm::Qemu => match vm.manager {
                Manager::None => Some(self.qemu_line()),
                Manager::Libvirt => Some(self.libvirt_line()),
                Manager::Proxmox => self.proxmox_line(),
                Manager::KubeVirt => self.kubevirt_line(),
            },
            Vmm::Crosvm => self.crosvm_line(),
            Vmm::CloudHypervisor => self.cloud_hypervisor_line(),
            Vmm::Firecracker | Vmm::Kvmtool => None,
        }?;
        Some(Fix::new(line, Needs::VmRestart))
    }

    fn qemu_line(&self) -> String {
        match self {
            Self::DiscardPitTicks => "-global kvm-pit.lost_tick_policy=discard".to_owned(),
            Self::SplitIrqchip => "-machine kernel-irqchip=split".to_owned(),
            Self::HyperV(name, on) => format!("-cpu …,hv-{name}={}", on_off(*on)),
            Self::CpuFeature(name, on) => format!("-cpu …,{name}={}", on_off(*on)),
            Self::Viommu(key) => format!("-device …,{key}=on"),
            Self::RemovePair(_) => "without it".to_owned(),
        }
    }

    fn libvirt_line(&self) -> String {
        match self {
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
        }
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
            Self::Viommu(_) => return None,
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
            Self::Viommu(_) | Self::RemovePair(_) => return None,
        })
    }

    fn crosvm_line(&self) -> Option<String> {
        match self {
            Self::DiscardPitTicks | Self::SplitIrqchip => Some("--split-irqchip".to_owned()),
            Self::HyperV(..) | Self::CpuFeature(..) | Self::Viommu(_) | Self::RemovePair(_) => None,
        }
    }

    fn cloud_hypervisor_line(&self) -> Option<String> {
        match self {
            Self::HyperV("avic", true) => Some("cloud-hypervisor v53 or later".to_owned()),
            Self::HyperV(..)
            | Self::DiscardPitTicks
            | Self::SplitIrqchip
            | Self::CpuFeature(..)
            | Self::Viommu(_)
            | Self::RemovePair(_) => None,
        }
    }
}

impl ParameterChange {
    /// The line for a host's parameter, as a kind of file has it.
    pub fn advice(&self, kind: Kind) -> Fix {
        let needs = if kind == Kind::Modprobe { Needs::ModuleReload } else { Needs::Reboot };
        let line = match self {
            Self::Set { name, value, .. } => format!("{name}={value}"),
            Self::Remove { name, .. } => format!("without {name}"),
            Self::Add { module, option, .. } if kind == Kind::Modprobe => {
                format!("options {module} {option}")
            }
            Self::Add { module, option, .. } => format!("{module}.{option}"),
        };
        Fix::new(line, needs)
    }
}

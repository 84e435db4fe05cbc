//! What decides interrupt virtualization for one virtual machine, whichever program runs it.
//!
//! Parsers in [`crate::configuration`] fill a [`VmConfiguration`] from a command line, a domain XML
//! or another input; [`crate::inhibit`] predicts from it. Every setting says whether it was written
//! (and where), follows from a default (and which), or cannot be known. Left out: all that has no
//! influence on interrupts.

use crate::finding::Position;
use crate::version::Version;
use serde::Serialize;
use std::borrow::Cow;

/// Why a setting has its value.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Written in the input.
    Written(Position),
    /// Not written; the reason names the default that applies.
    Default(Cow<'static, str>),
    /// Follows from another setting that is written there.
    Implied { by: Position, reason: Cow<'static, str> },
    /// The input does not decide it: a variable, an included file, an unknown machine type.
    Unknown(Cow<'static, str>),
}

/// A value with its origin.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Setting<T> {
    pub value: T,
    pub origin: Origin,
}

impl<T> Setting<T> {
    pub fn written(value: T, at: Position) -> Self {
        Self { value, origin: Origin::Written(at) }
    }

    pub fn by_default(value: T, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { value, origin: Origin::Default(reason.into()) }
    }

    pub fn implied(value: T, by: Position, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { value, origin: Origin::Implied { by, reason: reason.into() } }
    }

    pub fn unknown(value: T, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { value, origin: Origin::Unknown(reason.into()) }
    }

    /// Where it was written or implied; `None` for defaults and unknowns.
    pub fn position(&self) -> Option<Position> {
        match self.origin {
            Origin::Written(at) | Origin::Implied { by: at, .. } => Some(at),
            Origin::Default(_) | Origin::Unknown(_) => None,
        }
    }

    pub fn is_written(&self) -> bool {
        matches!(self.origin, Origin::Written(_))
    }

    pub fn is_unknown(&self) -> bool {
        matches!(self.origin, Origin::Unknown(_))
    }
}

/// The program that runs the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Vmm {
    Qemu,
    Firecracker,
    Crosvm,
    CloudHypervisor,
}

impl Vmm {
    pub fn name(self) -> &'static str {
        match self {
            Self::Qemu => "QEMU",
            Self::Firecracker => "Firecracker",
            Self::Crosvm => "crosvm",
            Self::CloudHypervisor => "cloud-hypervisor",
        }
    }
}

/// Who owns the configuration, that is, where a change has to be made so that it lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Manager {
    /// The command line itself is the configuration.
    None,
    Libvirt,
    Proxmox,
    KubeVirt,
}

/// What runs guest instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accelerator {
    Kvm,
    Tcg,
    /// Hypervisor.framework, WHPX, NVMM, HAX, Xen: not KVM, so KVM's rules say nothing.
    Other,
    Unknown,
}

impl Accelerator {
    pub fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
            Self::Other => "another accelerator",
            Self::Unknown => "unknown",
        }
    }
}

/// Board of the machine, as far as its interrupt hardware differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MachineFamily {
    /// `pc`, `pc-i440fx-*`, and distributions' names for it.
    I440fx,
    Q35,
    Microvm,
    Isapc,
    /// An x86 machine outside QEMU (Firecracker, crosvm, cloud-hypervisor).
    OfVmm,
    /// Not an x86 machine.
    Foreign,
    Unknown,
}

/// Machine type: family, the version its name carries, and the name itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Machine {
    pub family: MachineFamily,
    pub version: Option<Version>,
    pub name: String,
}

/// Where the interrupt controllers live.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Irqchip {
    /// Local APICs, I/O APIC and PIC in the kernel.
    Kernel,
    /// Local APICs in the kernel, I/O APIC and PIC in the VMM.
    Split,
    /// All of them in the VMM: no AVIC, no APICv.
    UserSpace,
    Unknown,
}

/// The 8254 timer and what it does with ticks the guest missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pit {
    Absent,
    /// Emulated by the VMM: KVM does not know of it.
    UserSpace,
    /// KVM's, reinjecting missed ticks (KVM's state after KVM_CREATE_PIT2).
    KernelReinject,
    /// KVM's, switched to discarding missed ticks.
    KernelDiscard,
    Unknown,
}

impl Pit {
    pub fn is_in_kernel(self) -> bool {
        matches!(self, Self::KernelReinject | Self::KernelDiscard)
    }
}

/// A yes or no that the CPU model or the host may decide.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exposure {
    Exposed,
    Hidden,
    /// Depends on the CPU model's definition or on the host.
    HostDecides,
}

/// Hyper-V enlightenments, each where it was written. `None` = not mentioned.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct HyperV {
    /// Every enlightenment the host knows.
    pub passthrough: Option<Setting<bool>>,
    pub synic: Option<Setting<bool>>,
    pub stimer: Option<Setting<bool>>,
    pub stimer_direct: Option<Setting<bool>>,
    pub avic: Option<Setting<bool>>,
    pub ipi: Option<Setting<bool>>,
    pub evmcs: Option<Setting<bool>>,
    pub vapic: Option<Setting<bool>>,
    pub vpindex: Option<Setting<bool>>,
    /// Any other enlightenment is on: the machine is meant for Windows.
    pub others: Option<Setting<bool>>,
}

impl HyperV {
    fn is_on(flag: &Option<Setting<bool>>, passthrough: &Option<Setting<bool>>) -> bool {
        match flag {
            Some(setting) => setting.value,
            None => passthrough.as_ref().is_some_and(|all| all.value),
        }
    }

    pub fn has_synic(&self) -> bool {
        Self::is_on(&self.synic, &self.passthrough)
    }

    pub fn has_stimer(&self) -> bool {
        Self::is_on(&self.stimer, &self.passthrough)
    }

    pub fn has_avic(&self) -> bool {
        Self::is_on(&self.avic, &self.passthrough)
    }

    pub fn has_vapic(&self) -> bool {
        Self::is_on(&self.vapic, &self.passthrough)
    }

    pub fn has_ipi(&self) -> bool {
        Self::is_on(&self.ipi, &self.passthrough)
    }

    pub fn has_evmcs(&self) -> bool {
        Self::is_on(&self.evmcs, &self.passthrough)
    }

    /// Any enlightenment at all.
    pub fn is_used(&self) -> bool {
        [
            &self.passthrough,
            &self.synic,
            &self.stimer,
            &self.stimer_direct,
            &self.avic,
            &self.ipi,
            &self.evmcs,
            &self.vapic,
            &self.vpindex,
            &self.others,
        ]
        .into_iter()
        .any(|flag| flag.as_ref().is_some_and(|on| on.value))
    }
}

/// The guest's own IOMMU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ViommuKind {
    Intel,
    Amd,
    Virtio,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Viommu {
    pub kind: ViommuKind,
    /// Interrupt remapping; QEMU's default follows the irqchip.
    pub remaps_interrupts: Setting<bool>,
    /// VT-d extended interrupt mode: 32-bit destinations.
    pub eim: Setting<bool>,
    /// AMD-Vi XTSup: 32-bit destinations.
    pub xtsup: Setting<bool>,
}

/// Memory encryption of the guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidential {
    Sev,
    SevEs,
    SevSnp,
    Tdx,
}

/// A device whose interrupts the host's IOMMU could post.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Passthrough {
    /// Driver or element as written, such as `vfio-pci`.
    pub driver: String,
    pub at: Position,
    /// Properties that keep its interrupts away from KVM.
    pub bypasses: Vec<Position>,
}

/// What the guest most likely is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guest {
    Windows,
    Linux,
    Unknown,
}

/// A part of the input that could not be resolved.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Unresolved {
    pub at: Position,
    pub what: String,
}

/// One virtual machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct VmConfiguration {
    pub name: Option<String>,
    /// File the positions refer to, as the caller named it.
    pub file: String,
    /// The whole of this machine in the input.
    pub span: Position,
    pub vmm: Vmm,
    pub manager: Manager,
    /// Version of the VMM where the input tells it (libvirt's logs do).
    pub vmm_version: Option<Version>,
    /// Host kernel where the input tells it.
    pub kernel: Option<Version>,
    pub accelerator: Setting<Accelerator>,
    pub machine: Setting<Machine>,
    pub irqchip: Setting<Irqchip>,
    pub pit: Setting<Pit>,
    /// Where a policy for the in-kernel PIT is written, whether there is one or not.
    pub pit_policy: Option<Position>,
    pub hpet: Setting<bool>,
    /// CPU model name as written (`host`, `EPYC-Milan`, …).
    pub cpu_model: Setting<String>,
    pub x2apic: Setting<Exposure>,
    /// The local APIC itself (`-cpu …,-apic` hides it).
    pub apic: Setting<bool>,
    /// SVM or VMX offered to the guest.
    pub nested: Setting<Exposure>,
    pub hyperv: HyperV,
    /// KVM's own CPUID signature hidden from the guest.
    pub kvm_hidden: Setting<bool>,
    pub vcpus: Setting<u32>,
    /// Largest number of vCPUs, hot-plugged ones included.
    pub max_vcpus: Setting<u32>,
    /// Largest APIC ID the topology gives out; with uneven topologies more than the count minus
    /// one.
    pub max_apic_id: Setting<u32>,
    pub viommu: Option<Setting<Viommu>>,
    pub confidential: Option<Setting<Confidential>>,
    /// HLT, MWAIT and PAUSE left to the guest.
    pub cpu_pm: Setting<bool>,
    pub msi_ext_dest_id: Setting<bool>,
    pub passthrough: Vec<Passthrough>,
    pub guest: Setting<Guest>,
    /// A GDB stub is configured.
    pub debugger: Option<Position>,
    pub unresolved: Vec<Unresolved>,
}

impl VmConfiguration {
    /// A machine as the VMM makes it when nothing is written; parsers change what they read.
    pub fn defaults(vmm: Vmm, file: &str, span: Position) -> Self {
        const NOT_WRITTEN: &str = "not written";
        let qemu = vmm == Vmm::Qemu;
        let family = if qemu { MachineFamily::I440fx } else { MachineFamily::OfVmm };
        let accelerator = if qemu { Accelerator::Tcg } else { Accelerator::Kvm };
        let name = if qemu { "pc" } else { vmm.name() };
        Self {
            name: None,
            file: file.to_owned(),
            span,
            vmm,
            manager: Manager::None,
            vmm_version: None,
            kernel: None,
            accelerator: Setting::by_default(accelerator, NOT_WRITTEN),
            machine: Setting::by_default(
                Machine { family, version: None, name: name.to_owned() },
                NOT_WRITTEN,
            ),
            irqchip: Setting::by_default(Irqchip::Kernel, NOT_WRITTEN),
            pit: Setting::by_default(Pit::KernelReinject, NOT_WRITTEN),
            pit_policy: None,
            hpet: Setting::by_default(qemu, NOT_WRITTEN),
            cpu_model: Setting::by_default(String::new(), NOT_WRITTEN),
            x2apic: Setting::by_default(Exposure::Exposed, "KVM's default for every CPU model"),
            apic: Setting::by_default(true, NOT_WRITTEN),
            nested: Setting::by_default(Exposure::Hidden, NOT_WRITTEN),
            hyperv: HyperV::default(),
            kvm_hidden: Setting::by_default(false, NOT_WRITTEN),
            vcpus: Setting::by_default(1, NOT_WRITTEN),
            max_vcpus: Setting::by_default(1, NOT_WRITTEN),
            max_apic_id: Setting::by_default(0, NOT_WRITTEN),
            viommu: None,
            confidential: None,
            cpu_pm: Setting::by_default(false, NOT_WRITTEN),
            msi_ext_dest_id: Setting::by_default(false, NOT_WRITTEN),
            passthrough: Vec::new(),
            guest: Setting::by_default(Guest::Unknown, NOT_WRITTEN),
            debugger: None,
            unresolved: Vec::new(),
        }
    }

    pub fn is_kvm(&self) -> bool {
        self.accelerator.value == Accelerator::Kvm
    }

    /// An x86 machine that KVM runs, or may run.
    pub fn may_be_kvm_x86(&self) -> bool {
        matches!(self.accelerator.value, Accelerator::Kvm | Accelerator::Unknown)
            && self.machine.value.family != MachineFamily::Foreign
    }
}

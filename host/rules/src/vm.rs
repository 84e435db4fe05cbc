//! What decides interrupt virtualization for one virtual machine, whichever program runs it.
//!
//! Parsers in [`crate::configuration`] fill a [`VmConfiguration`] from a command line, a domain XML
//! or another input; [`crate::inhibit`] predicts from it. Every setting says whether it was written
//! (and where), follows from a default (and which), or cannot be known. Left out: all that has no
//! influence on interrupts.

use crate::finding::Position;
use reading::Kernel;
use reading::version::Version;
use serde::Serialize;
use std::borrow::Cow;

/// The largest that an APIC has without x2APIC; 255 is all of them.
pub const LARGEST_XAPIC_ID: u32 = 254;

/// Why a setting has its value.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Written in the input.
    Written(Position),
    /// Not written; the reason names the default that applies.
    Default(Cow<'static, str>),
    /// Follows from another setting that is written there.
    Implied {
        /// Where that other setting is written.
        by: Position,
        /// Why the one follows from the other.
        reason: Cow<'static, str>,
    },
    /// The input does not decide it: a variable, an included file, an unknown machine type.
    Unknown(Cow<'static, str>),
}

/// A value with its origin.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Setting<T> {
    /// What it is taken to be; for an unknown one, the best guess.
    pub value: T,
    /// Why it is that.
    pub origin: Origin,
}

impl<T> Setting<T> {
    /// As the input has it at this place.
    pub fn written(value: T, at: Position) -> Self {
        Self { value, origin: Origin::Written(at) }
    }

    /// Not written; `reason` names the default.
    pub fn by_default(value: T, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { value, origin: Origin::Default(reason.into()) }
    }

    /// Follows from what is written at `by`.
    pub fn implied(value: T, by: Position, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { value, origin: Origin::Implied { by, reason: reason.into() } }
    }

    /// Not decided by the input; `value` is the best guess.
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

    /// The input has the setting itself.
    pub fn is_written(&self) -> bool {
        matches!(self.origin, Origin::Written(_))
    }

    /// The value is no more than a guess.
    pub fn is_unknown(&self) -> bool {
        matches!(self.origin, Origin::Unknown(_))
    }
}

/// The program that runs the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Vmm {
    /// QEMU, and programs that are QEMU under another name.
    Qemu,
    /// Firecracker.
    Firecracker,
    /// crosvm.
    Crosvm,
    /// Cloud Hypervisor.
    CloudHypervisor,
    /// kvmtool, whose program is lkvm.
    Kvmtool,
}

impl Vmm {
    /// As its own project writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Qemu => "QEMU",
            Self::Firecracker => "Firecracker",
            Self::Crosvm => "crosvm",
            Self::CloudHypervisor => "cloud-hypervisor",
            Self::Kvmtool => "kvmtool",
        }
    }
}

/// Who owns the configuration, that is, where a change has to be made so that it lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Manager {
    /// The command line itself is the configuration.
    None,
    /// Domain XML, changed with `virsh edit`.
    Libvirt,
    /// Proxmox VE, changed with `qm set`.
    Proxmox,
    /// The Kubernetes manifest of the machine.
    KubeVirt,
}

/// What runs guest instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accelerator {
    /// Linux KVM, the only one with AVIC and APICv.
    Kvm,
    /// QEMU's translator: no hardware virtualization at all.
    Tcg,
    /// Hypervisor.framework, WHPX, NVMM, HAX, Xen: not KVM, so KVM's rules say nothing.
    Other,
    /// A name that is not known, or not decided by the input.
    Unknown,
}

impl Accelerator {
    /// In lower case, as QEMU's options have it where there is one.
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
    /// `q35`, `pc-q35-*`, and distributions' names for it.
    Q35,
    /// `microvm`: its I/O APIC is in QEMU unless told otherwise.
    Microvm,
    /// `isapc`: no PCI, one vCPU.
    Isapc,
    /// An x86 machine outside QEMU (Firecracker, crosvm, cloud-hypervisor, kvmtool).
    OfVmm,
    /// Not an x86 machine.
    Foreign,
    /// A machine type that is not known, or not decided by the input.
    Unknown,
}

/// Machine type: family, the version its name carries, and the name itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Machine {
    /// `Unknown` for a name that no QEMU of the rules has.
    pub family: MachineFamily,
    /// `pc-q35-8.2` has 8.2; `None` for an alias such as `q35`.
    pub version: Option<Version>,
    /// As written, or the default's.
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
    /// The input does not decide it.
    Unknown,
}

/// The 8254 timer and what it does with ticks the guest missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pit {
    /// The machine has none.
    Absent,
    /// Emulated by the VMM: KVM does not know of it.
    UserSpace,
    /// KVM's, reinjecting missed ticks (KVM's state after KVM_CREATE_PIT2).
    KernelReinject,
    /// KVM's, switched to discarding missed ticks.
    KernelDiscard,
    /// The input does not decide it.
    Unknown,
}

/// A yes or no that the CPU model or the host may decide.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exposure {
    /// The guest's CPUID shows it.
    Exposed,
    /// The guest's CPUID does not show it.
    Hidden,
    /// Depends on the CPU model's definition or on the host.
    HostDecides,
}

/// Hyper-V enlightenments, each where it was written. `None` = not mentioned.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct HyperV {
    /// Every enlightenment the host knows.
    pub passthrough: Option<Setting<bool>>,
    /// `hv-synic`: the synthetic interrupt controller.
    pub synic: Option<Setting<bool>>,
    /// `hv-stimer`: synthetic timers, which need the SynIC.
    pub stimer: Option<Setting<bool>>,
    /// `hv-stimer-direct`: their interrupts without a message.
    pub stimer_direct: Option<Setting<bool>>,
    /// `hv-avic`: tells the guest not to use AutoEOI.
    pub avic: Option<Setting<bool>>,
    /// `hv-ipi`: IPIs by hypercall, which exits where hardware would not.
    pub ipi: Option<Setting<bool>>,
    /// `hv-evmcs`: enlightened VMCS for nested VMX.
    pub evmcs: Option<Setting<bool>>,
    /// `hv-vapic`: APIC registers by MSR, and the assist page.
    pub vapic: Option<Setting<bool>>,
    /// `hv-vpindex`: vCPU numbers, which the SynIC needs.
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

    /// [`HyperV::synic`] is on, by itself or with all others.
    pub fn has_synic(&self) -> bool {
        Self::is_on(&self.synic, &self.passthrough)
    }

    /// [`HyperV::stimer`] is on, by itself or with all others.
    pub fn has_stimer(&self) -> bool {
        Self::is_on(&self.stimer, &self.passthrough)
    }

    /// [`HyperV::avic`] is on, by itself or with all others.
    pub fn has_avic(&self) -> bool {
        Self::is_on(&self.avic, &self.passthrough)
    }

    /// [`HyperV::vapic`] is on, by itself or with all others.
    pub fn has_vapic(&self) -> bool {
        Self::is_on(&self.vapic, &self.passthrough)
    }

    /// [`HyperV::ipi`] is on, by itself or with all others.
    pub fn has_ipi(&self) -> bool {
        Self::is_on(&self.ipi, &self.passthrough)
    }

    /// [`HyperV::evmcs`] is on, by itself or with all others.
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
    /// QEMU's `intel-iommu`.
    Intel,
    /// QEMU's `amd-iommu`.
    Amd,
    /// `virtio-iommu`: no interrupt remapping.
    Virtio,
}

/// An IOMMU of the guest, and what it does with interrupts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Viommu {
    /// Which device.
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
    /// Encrypted memory; registers are KVM's to see.
    Sev,
    /// Encrypted memory and registers.
    SevEs,
    /// SEV-ES with integrity of memory.
    SevSnp,
    /// Intel's trust domains.
    Tdx,
}

/// A device whose interrupts the host's IOMMU could post.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Passthrough {
    /// Driver or element as written, such as `vfio-pci`.
    pub driver: String,
    /// Where the device is written.
    pub at: Position,
    /// Properties that keep its interrupts away from KVM.
    pub bypasses: Vec<Position>,
}

/// What the guest most likely is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guest {
    /// By its enlightenments, clock or what a manager says it is.
    Windows,
    /// By its directly loaded kernel or what a manager says it is.
    Linux,
    /// Nothing tells.
    Unknown,
}

/// A part of the input that could not be resolved.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Unresolved {
    /// The place of what is not known.
    pub at: Position,
    /// What it is, in a few words.
    pub what: String,
}

/// One virtual machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct VmConfiguration {
    /// `None` where the input gives it none.
    pub name: Option<String>,
    /// File the positions refer to, as the caller named it.
    pub file: String,
    /// The whole of this machine in the input.
    pub span: Position,
    /// The program that the input is for.
    pub vmm: Vmm,
    /// Who would undo a change that is made elsewhere.
    pub manager: Manager,
    /// Version of the VMM where the input tells it (libvirt's logs do).
    pub vmm_version: Option<Version>,
    /// Host kernel where the input tells it.
    pub kernel: Option<Kernel>,
    /// Only KVM's machines have AVIC or APICv.
    pub accelerator: Setting<Accelerator>,
    /// The board.
    pub machine: Setting<Machine>,
    /// Where the interrupt controllers live.
    pub irqchip: Setting<Irqchip>,
    /// The 8254 timer.
    pub pit: Setting<Pit>,
    /// Where a policy for the in-kernel PIT is written, whether there is one or not.
    pub pit_policy: Option<Position>,
    /// The machine has an HPET.
    pub hpet: Setting<bool>,
    /// CPU model name as written (`host`, `EPYC-Milan`, …).
    pub cpu_model: Setting<String>,
    /// x2APIC mode in the guest's CPUID.
    pub x2apic: Setting<Exposure>,
    /// The local APIC itself (`-cpu …,-apic` hides it).
    pub apic: Setting<bool>,
    /// SVM or VMX offered to the guest.
    pub nested: Setting<Exposure>,
    /// Hyper-V's interfaces, as far as they touch interrupts.
    pub hyperv: HyperV,
    /// KVM's own CPUID signature hidden from the guest.
    pub kvm_hidden: Setting<bool>,
    /// At start.
    pub vcpus: Setting<u32>,
    /// Largest number of vCPUs, hot-plugged ones included.
    pub max_vcpus: Setting<u32>,
    /// Largest APIC ID the topology gives out; with uneven topologies more than the count minus
    /// one.
    pub max_apic_id: Setting<u32>,
    /// `None` where the machine has none.
    pub viommu: Option<Setting<Viommu>>,
    /// `None` where its memory is not encrypted.
    pub confidential: Option<Setting<Confidential>>,
    /// HLT, MWAIT and PAUSE left to the guest.
    pub cpu_pm: Setting<bool>,
    /// KVM's extended destination identifiers for MSIs: 15 bits without an IOMMU.
    pub msi_ext_dest_id: Setting<bool>,
    /// In the order of the input.
    pub passthrough: Vec<Passthrough>,
    /// What runs inside, as far as the input tells.
    pub guest: Setting<Guest>,
    /// A GDB stub is configured.
    pub debugger: Option<Position>,
    /// What a complete answer would have to know, and the input does not say.
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

    /// KVM by what is written, implied or default; an unknown accelerator is not.
    pub fn is_kvm(&self) -> bool {
        self.accelerator.value == Accelerator::Kvm
    }

    /// An x86 machine that KVM runs, or may run.
    pub fn may_be_kvm_x86(&self) -> bool {
        matches!(self.accelerator.value, Accelerator::Kvm | Accelerator::Unknown)
            && self.machine.value.family != MachineFamily::Foreign
    }
}

//! What a QEMU process is told, from whichever input, and the machine that results.
//!
//! The readers of command lines, `-readconfig` files, libvirt XML, Proxmox and KubeVirt
//! configurations all fill [`QemuSettings`]; [`QemuSettings::resolve`] is the one place where
//! QEMU's own defaults are applied.

use super::qemu_machine::{self, Topology};
use crate::finding::Position;
use crate::vm::{
    Accelerator, Confidential, Exposure, Guest, Irqchip, Machine, MachineFamily, Origin,
    Passthrough, Pit, Setting, Unresolved, Viommu, ViommuKind, VmConfiguration, Vmm,
};
use reading::version::Version;

/// A value with its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed<T> {
    pub value: T,
    pub at: Position,
}

pub fn placed<T>(value: T, at: Position) -> Placed<T> {
    Placed { value, at }
}

/// A key with its value, as `-machine`, `-device` and friends take them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Property {
    pub key: String,
    pub value: String,
    pub at: Position,
}

/// A device or object: its type and properties.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Object {
    pub kind: String,
    pub at: Position,
    pub properties: Vec<Property>,
}

impl Object {
    /// The last value of a property, and where it is written.
    pub fn property(&self, key: &str) -> Option<&Property> {
        self.properties.iter().rev().find(|property| property.key == key)
    }
}

/// `-global driver.property=value`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Global {
    pub driver: String,
    pub property: Property,
}

/// The options that matter here, later ones last.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QemuSettings {
    /// Name of the program; one that ends in `kvm` prefers KVM.
    pub program: Option<Placed<String>>,
    pub machine_type: Option<Placed<String>>,
    /// Properties of `-machine` and of `-accel kvm`, dashes for underscores.
    pub machine: Vec<Property>,
    pub accelerator: Option<Placed<String>>,
    pub cpu_model: Option<Placed<String>>,
    /// CPU features, dashes for underscores: `x2apic` with `on` or `off`.
    pub features: Vec<Property>,
    pub topology: Topology,
    pub topology_at: Option<Position>,
    pub globals: Vec<Global>,
    pub devices: Vec<Object>,
    pub objects: Vec<Object>,
    pub has_kernel: Option<Position>,
    pub is_local_time: Option<Position>,
    pub guest: Option<Placed<Guest>>,
    pub cpu_pm: Option<Placed<bool>>,
    pub debugger: Option<Position>,
    pub name: Option<String>,
    pub unresolved: Vec<Unresolved>,
    /// Some option could come from a place that is not read here (a variable, an included file).
    pub is_incomplete: Option<String>,
    /// A part of `-cpu` is not known: features may be switched that are not seen.
    pub open_cpu: Option<String>,
}

/// QEMU's spellings of yes and no.
pub fn truth(value: &str) -> Option<bool> {
    match value {
        "on" | "yes" | "true" | "y" | "1" => Some(true),
        "off" | "no" | "false" | "n" | "0" => Some(false),
        _ => None,
    }
}

impl QemuSettings {
    pub fn machine_property(&self, key: &str) -> Option<&Property> {
        self.machine.iter().rev().find(|property| property.key == key)
    }

    /// A CPU feature that was switched, by its name with dashes.
    pub fn feature(&self, name: &str) -> Option<Setting<bool>> {
        let property = self.features.iter().rev().find(|property| property.key == name)?;
        Some(Setting::written(truth(&property.value)?, property.at))
    }

    /// Takes further options of the same command line into account, as later ones.
    pub fn extend(&mut self, more: QemuSettings) {
        self.machine_type = more.machine_type.or(self.machine_type.take());
        self.machine.extend(more.machine);
        self.accelerator = more.accelerator.or(self.accelerator.take());
        if more.cpu_model.is_some() {
            // A second -cpu replaces the first one whole.
            self.cpu_model = more.cpu_model;
            self.features = more.features;
            self.open_cpu = more.open_cpu;
        }
        if more.topology_at.is_some() {
            (self.topology, self.topology_at) = (more.topology, more.topology_at);
        }
        self.globals.extend(more.globals);
        self.devices.extend(more.devices);
        self.objects.extend(more.objects);
        self.cpu_pm = more.cpu_pm.or(self.cpu_pm.take());
        self.debugger = more.debugger.or(self.debugger);
        self.has_kernel = more.has_kernel.or(self.has_kernel);
        self.is_local_time = more.is_local_time.or(self.is_local_time);
        self.unresolved.extend(more.unresolved);
        self.is_incomplete = self.is_incomplete.take().or(more.is_incomplete);
    }

    /// The machine QEMU builds from these settings.
    pub fn resolve(&self, file: &str, span: Position, qemu: Option<Version>) -> VmConfiguration {
        let mut vm = VmConfiguration::defaults(Vmm::Qemu, file, span);
        vm.name.clone_from(&self.name);
        vm.vmm_version = qemu;
        vm.unresolved.clone_from(&self.unresolved);
        self.resolve_accelerator(&mut vm);
        self.resolve_machine(&mut vm);
        vm.confidential = self.confidential();
        self.resolve_irqchip(&mut vm, qemu);
        self.resolve_pit(&mut vm);
        self.resolve_cpu(&mut vm, qemu);
        self.resolve_hyperv(&mut vm);
        self.resolve_guest(&mut vm);
        vm.viommu = self.viommu(vm.irqchip.value);
        if let Some(cpu_pm) = &self.cpu_pm {
            vm.cpu_pm = Setting::written(cpu_pm.value, cpu_pm.at);
        }
        vm.debugger = self.debugger;
        vm.passthrough = self
            .devices
            .iter()
            .filter(|device| device.kind.starts_with("vfio-"))
            .map(|device| {
                let bypasses = device
                    .properties
                    .iter()
                    .filter(|property| {
                        property.key.starts_with("x-no-kvm-")
                            && truth(&property.value) == Some(true)
                    })
                    .map(|property| property.at)
                    .collect();
                Passthrough { driver: device.kind.clone(), at: device.at, bypasses }
            })
            .collect();
        vm
    }

    /// The default `value`, or unknown where an unread option could change it.
    fn default_of<T>(&self, value: T, unknown: T, reason: &'static str) -> Setting<T> {
        match &self.is_incomplete {
            None => Setting::by_default(value, reason),
            Some(why) => Setting::unknown(unknown, why.clone()),
        }
    }

    /// The same for what a feature of the processor decides.
    fn feature_default<T>(&self, value: T, unknown: T, reason: &'static str) -> Setting<T> {
        match &self.open_cpu {
            None => self.default_of(value, unknown, reason),
            Some(why) => Setting::unknown(unknown, why.clone()),
        }
    }

    fn resolve_accelerator(&self, vm: &mut VmConfiguration) {
        let prefers_kvm = self.program.as_ref().is_some_and(|program| {
            let name = program.value.rsplit('/').next().unwrap_or_default();
            name.ends_with("kvm")
        });
        vm.accelerator = if let Some(list) = &self.accelerator {
            match qemu_machine::accelerator(&list.value) {
                Accelerator::Unknown => {
                    Setting::unknown(Accelerator::Unknown, "the accelerator's name is not known")
                }
                known => Setting::written(known, list.at),
            }
        } else if let (true, Some(program)) = (prefers_kvm, &self.program) {
            let reason = "a QEMU whose name ends in kvm prefers KVM";
            Setting::implied(Accelerator::Kvm, program.at, reason)
        } else {
            let reason = "QEMU prefers TCG unless told otherwise";
            self.default_of(Accelerator::Tcg, Accelerator::Unknown, reason)
        };
    }

    fn resolve_machine(&self, vm: &mut VmConfiguration) {
        let is_foreign_program = self.program.as_ref().is_some_and(|program| {
            let name = program.value.rsplit('/').next().unwrap_or_default();
            name.strip_prefix("qemu-system-").is_some_and(|arch| {
                !arch.starts_with("x86") && !arch.starts_with("i386") && !arch.contains('$')
            })
        });
        let foreign = |name: &str| Machine {
            family: MachineFamily::Foreign,
            version: None,
            name: name.to_owned(),
        };
        vm.machine = match &self.machine_type {
            Some(name) if is_foreign_program => Setting::written(foreign(&name.value), name.at),
            Some(name) => {
                let machine = qemu_machine::machine(&name.value);
                if machine.family == MachineFamily::Unknown {
                    Setting::unknown(machine, format!("machine type '{}' is not known", name.value))
                } else {
                    Setting::written(machine, name.at)
                }
            }
            None if is_foreign_program => Setting::by_default(foreign("none"), "not an x86 QEMU"),
            None => {
                let unknown =
                    Machine { family: MachineFamily::Unknown, version: None, name: String::new() };
                self.default_of(
                    qemu_machine::machine("pc"),
                    unknown,
                    "QEMU's default machine is pc",
                )
            }
        };
    }

    fn resolve_irqchip(&self, vm: &mut VmConfiguration, qemu: Option<Version>) {
        let is_tdx = vm.confidential.as_ref().is_some_and(|c| c.value == Confidential::Tdx);
        vm.irqchip = if let Some(property) = self.machine_property("kernel-irqchip") {
            match property.value.as_str() {
                "split" => Setting::written(Irqchip::Split, property.at),
                value => match truth(value) {
                    Some(true) => Setting::written(Irqchip::Kernel, property.at),
                    Some(false) => Setting::written(Irqchip::UserSpace, property.at),
                    None => {
                        let reason = format!("kernel-irqchip={value} is neither on, off nor split");
                        Setting::unknown(Irqchip::Unknown, reason)
                    }
                },
            }
        } else if let (true, Some(tdx)) = (is_tdx, &vm.confidential) {
            let at = tdx.position().unwrap_or(vm.span);
            Setting::implied(Irqchip::Split, at, "QEMU splits the irqchip of TDX guests")
        } else {
            match qemu_machine::splits_irqchip_by_default(&vm.machine.value, qemu) {
                Some(splits) => {
                    let irqchip = if splits { Irqchip::Split } else { Irqchip::Kernel };
                    self.default_of(irqchip, Irqchip::Unknown, "default of the machine type")
                }
                None => Setting::unknown(
                    Irqchip::Unknown,
                    "the default irqchip of this machine type is not known",
                ),
            }
        };
    }

    fn resolve_pit(&self, vm: &mut VmConfiguration) {
        vm.pit_policy = self.global("kvm-pit", "lost_tick_policy").map(|property| property.at);
        let switched_off =
            self.machine_property("pit").filter(|property| truth(&property.value) == Some(false));
        vm.pit = if let Some(off) = switched_off {
            Setting::written(Pit::Absent, off.at)
        } else {
            match vm.irqchip.value {
                Irqchip::Split | Irqchip::UserSpace => {
                    let reason = "the PIT is in the kernel only together with the whole irqchip";
                    match vm.irqchip.position() {
                        Some(by) => Setting::implied(Pit::UserSpace, by, reason),
                        None => Setting::by_default(Pit::UserSpace, reason),
                    }
                }
                Irqchip::Kernel => self.kernel_pit(),
                Irqchip::Unknown => match self.kernel_pit() {
                    discarding if discarding.value == Pit::KernelDiscard => discarding,
                    _ => match &vm.irqchip.origin {
                        Origin::Unknown(why) => Setting::unknown(Pit::Unknown, why.clone()),
                        _ => Setting::unknown(
                            Pit::Unknown,
                            "follows the irqchip, which is not known",
                        ),
                    },
                },
            }
        };
        let hpet = self
            .machine_property("hpet")
            .and_then(|property| Some(Setting::written(truth(&property.value)?, property.at)));
        let has_hpet = matches!(
            vm.machine.value.family,
            MachineFamily::I440fx | MachineFamily::Q35 | MachineFamily::Isapc
        );
        vm.hpet =
            hpet.unwrap_or_else(|| self.default_of(has_hpet, false, "default of the machine"));
    }

    /// The policy of an in-kernel PIT.
    pub fn kernel_pit(&self) -> Setting<Pit> {
        match self.global("kvm-pit", "lost_tick_policy") {
            Some(property) if property.value == "discard" => {
                Setting::written(Pit::KernelDiscard, property.at)
            }
            Some(property) if property.value == "delay" => {
                Setting::written(Pit::KernelReinject, property.at)
            }
            Some(property) => {
                let reason = format!("kvm-pit does not support policy '{}'", property.value);
                Setting::unknown(Pit::Unknown, reason)
            }
            None => {
                let reason = "kvm-pit.lost_tick_policy defaults to delay, which reinjects";
                self.default_of(Pit::KernelReinject, Pit::Unknown, reason)
            }
        }
    }

    pub fn global(&self, driver: &str, key: &str) -> Option<&Property> {
        self.globals
            .iter()
            .rev()
            .find(|global| global.driver == driver && global.property.key == key)
            .map(|global| &global.property)
    }

    fn resolve_cpu(&self, vm: &mut VmConfiguration, qemu: Option<Version>) {
        let model = self.cpu_model.as_ref();
        vm.cpu_model = match model {
            Some(model) => Setting::written(model.value.clone(), model.at),
            None => self.default_of("qemu64".to_owned(), String::new(), "QEMU's default model"),
        };
        let is_host = matches!(vm.cpu_model.value.as_str(), "host" | "max");
        let exposure = |setting: Setting<bool>| {
            let value = if setting.value { Exposure::Exposed } else { Exposure::Hidden };
            Setting { value, origin: setting.origin }
        };
        vm.x2apic = match self.feature("x2apic") {
            Some(setting) => exposure(setting),
            None if vm.irqchip.value == Irqchip::UserSpace => Setting::by_default(
                Exposure::Hidden,
                "QEMU offers x2APIC with an in-kernel APIC only",
            ),
            None => self.feature_default(
                Exposure::Exposed,
                Exposure::HostDecides,
                "QEMU adds x2APIC to every CPU model under KVM",
            ),
        };
        vm.nested = match self.feature("svm").or_else(|| self.feature("vmx")) {
            Some(setting) => exposure(setting),
            None if is_host => match model {
                Some(model) => {
                    let reason = "model host passes on what kvm_amd's parameter nested allows";
                    Setting::implied(Exposure::HostDecides, model.at, reason)
                }
                None => Setting::by_default(Exposure::HostDecides, "as the host allows"),
            },
            None => self.feature_default(
                Exposure::Hidden,
                Exposure::HostDecides,
                "QEMU hides SVM and VMX of named models under KVM",
            ),
        };
        if let Some(apic) = self.feature("apic") {
            vm.apic = apic;
        }
        if let Some(kvm) = self.feature("kvm") {
            vm.kvm_hidden = Setting { value: !kvm.value, origin: kvm.origin };
        }
        vm.msi_ext_dest_id = match self.feature("kvm-msi-ext-dest-id") {
            Some(setting) => setting,
            None => {
                let knows = qemu.is_none_or(|version| version >= Version::new(5, 2, 0));
                let split = vm.irqchip.value == Irqchip::Split;
                let reason = "on by default with a split irqchip from QEMU 5.2 on";
                Setting::by_default(split && knows && !vm.kvm_hidden.value, reason)
            }
        };
        let cpus = self.topology.resolve();
        let counted = |value: u32| match self.topology_at {
            Some(at) => Setting::written(value, at),
            None => self.default_of(value, value, "one vCPU unless told otherwise"),
        };
        vm.vcpus = counted(cpus.present);
        vm.max_vcpus = counted(cpus.possible);
        vm.max_apic_id = counted(cpus.largest_apic_id);
    }

    fn resolve_hyperv(&self, vm: &mut VmConfiguration) {
        let hyperv = &mut vm.hyperv;
        hyperv.passthrough = self.feature("hv-passthrough");
        hyperv.synic = self.feature("hv-synic");
        hyperv.stimer = self.feature("hv-stimer");
        hyperv.stimer_direct = self.feature("hv-stimer-direct");
        hyperv.avic = self.feature("hv-avic").or_else(|| self.feature("hv-apicv"));
        hyperv.ipi = self.feature("hv-ipi");
        hyperv.evmcs = self.feature("hv-evmcs");
        hyperv.vapic = self.feature("hv-vapic");
        hyperv.vpindex = self.feature("hv-vpindex");
        hyperv.others = self
            .features
            .iter()
            .find(|feature| feature.key.starts_with("hv-") && truth(&feature.value) == Some(true))
            .map(|feature| Setting::written(true, feature.at));
    }

    fn resolve_guest(&self, vm: &mut VmConfiguration) {
        vm.guest = if let Some(guest) = &self.guest {
            Setting::written(guest.value, guest.at)
        } else if let Some(at) = self.has_kernel {
            Setting::implied(Guest::Linux, at, "a kernel is loaded directly")
        } else if let (true, Some(at)) = (vm.hyperv.is_used(), self.is_local_time) {
            let reason = "Hyper-V enlightenments and a clock in local time";
            Setting::implied(Guest::Windows, at, reason)
        } else {
            Setting::by_default(Guest::Unknown, "nothing tells")
        };
    }

    fn confidential(&self) -> Option<Setting<Confidential>> {
        let reference = self
            .machine_property("confidential-guest-support")
            .or_else(|| self.machine_property("memory-encryption"))?;
        let object = self
            .objects
            .iter()
            .find(|object| object.property("id").is_some_and(|id| id.value == reference.value))?;
        let kind = match object.kind.as_str() {
            "sev-guest" => {
                let policy = object.property("policy").map_or(1, |policy| number(&policy.value));
                // Bit 2 of the policy asks for encrypted state.
                if policy & 4 != 0 { Confidential::SevEs } else { Confidential::Sev }
            }
            "sev-snp-guest" => Confidential::SevSnp,
            "tdx-guest" => Confidential::Tdx,
            _ => return None,
        };
        Some(Setting::written(kind, object.at))
    }

    fn viommu(&self, irqchip: Irqchip) -> Option<Setting<Viommu>> {
        let (device, kind) = self.devices.iter().find_map(|device| {
            let kind = match device.kind.as_str() {
                "intel-iommu" => ViommuKind::Intel,
                "amd-iommu" => ViommuKind::Amd,
                "virtio-iommu" | "virtio-iommu-pci" => ViommuKind::Virtio,
                _ => return None,
            };
            Some((device, kind))
        })?;
        let switch = |key: &str| {
            let property = device.property(key)?;
            Some(Setting::written(truth(&property.value)?, property.at))
        };
        let can_remap = kind != ViommuKind::Virtio;
        // Left to itself QEMU remaps unless the whole irqchip is in the kernel, which cannot.
        let remaps = can_remap && irqchip != Irqchip::Kernel;
        let remaps_interrupts = switch("intremap").unwrap_or_else(|| {
            Setting::by_default(remaps, "on unless the irqchip is in the kernel")
        });
        let is_intel = kind == ViommuKind::Intel;
        let eim = switch("eim").unwrap_or_else(|| {
            Setting::by_default(
                is_intel && remaps_interrupts.value && irqchip == Irqchip::Split,
                "on where interrupts are remapped with an in-kernel APIC",
            )
        });
        let xtsup =
            switch("xtsup").unwrap_or_else(|| Setting::by_default(false, "off unless told"));
        let viommu = Viommu { kind, remaps_interrupts, eim, xtsup };
        Some(Setting::written(viommu, device.at))
    }
}

/// A number as QEMU and C write it.
fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap_or(0),
        None => text.parse().unwrap_or(0),
    }
}
